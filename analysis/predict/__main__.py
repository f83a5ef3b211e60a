"""python -m analysis.predict"""

from analysis import own_environment

if __name__ == "__main__":
    own_environment.enter("analysis.predict")  # before anything that needs numpy

import os
import sys

from analysis.predict.command import main

try:
    code = main()
    sys.stdout.flush()
except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    code = 0
sys.exit(code)
