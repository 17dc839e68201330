# SPDX-License-Identifier: Apache-2.0
"""One TCP stream from rank 1 to rank 0, started by mpirun on two hosts: stream.py BYTES.

Rank 0 prints bytes per second, from the first quarter on, when the burst of the shaper has passed.
"""

import os
import socket
import sys
import time

PORT = 7000
total = int(sys.argv[1])


def receive() -> None:
    with socket.create_server(("", PORT)) as server:
        server.settimeout(20)
        stream, _ = server.accept()
    stream.settimeout(20)
    got, start, counted_from = 0, 0.0, 0
    while part := stream.recv(1 << 20):
        got += len(part)
        if not start and got >= total // 4:
            start, counted_from = time.monotonic(), got
    print((got - counted_from) / (time.monotonic() - start), flush=True)


def send() -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            stream = socket.create_connection(("host0", PORT), timeout=20)
            break
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
    with stream:
        stream.sendall(bytes(total))


receive() if os.environ["OMPI_COMM_WORLD_RANK"] == "0" else send()
