"""An engine behind real sockets, in this process or in one of its own."""

import json
import subprocess
import sys
import threading
import time

import msgspec
import pytest
import zmq

from vllm_rs import wire
from vllm_rs.config import CacheConfig, EngineConfig, LinkConfig, SchedulerConfig
from vllm_rs.wire_codec import Decoder, Encoder

IDENTITY = b"\x00\x00"


class Frontend:
    """The client side of the protocol: binds, shakes hands, sends, collects."""

    def __init__(self, folder, num_clients=1):
        self.context = zmq.Context()
        self.folder = folder
        self.handshake = self._bind(zmq.ROUTER, "handshake")
        self.inputs = [self._bind(zmq.ROUTER, f"input{index}") for index in range(num_clients)]
        self.outputs = [self._bind(zmq.PULL, f"output{index}") for index in range(num_clients)]
        self.encoder = Encoder()
        self.decoder = Decoder(wire.EngineCoreOutputs)

    def _bind(self, kind, name):
        socket = self.context.socket(kind)
        socket.linger = 0
        socket.bind(self.address(name))
        return socket

    def address(self, name):
        return f"ipc://{self.folder}/{name}"

    def config(self, **scheduler):
        return EngineConfig(
            cache=CacheConfig(kv_cache_memory_bytes=1 << 20),
            scheduler=SchedulerConfig(**scheduler),
            link=LinkConfig(handshake_address=self.address("handshake")),
        )

    def shake_hands(self, **init):
        identity, hello = self.receive(self.handshake)
        assert identity == IDENTITY
        addresses = {
            "inputs": [self.address(f"input{index}") for index in range(len(self.inputs))],
            "outputs": [self.address(f"output{index}") for index in range(len(self.outputs))],
        }
        message = {"addresses": addresses, "parallel_config": {}, **init}
        self.handshake.send_multipart([identity, msgspec.msgpack.encode(message)])
        registrations = [msgspec.msgpack.decode(self.receive(socket)[1]) for socket in self.inputs]
        ready = msgspec.msgpack.decode(self.receive(self.handshake)[1])
        return msgspec.msgpack.decode(hello), registrations, ready

    def receive(self, socket, timeout_s=20):
        assert socket.poll(int(timeout_s * 1000)), "nothing came"
        return socket.recv_multipart()

    def send(self, kind, *frames, client=0):
        self.inputs[client].send_multipart([IDENTITY, kind, *frames])

    def add(self, name, prompt=(1, 2, 3), *, client=0, **params):
        request = wire.EngineCoreRequest(
            name, list(prompt), None, wire.SamplingParams(**params), None, time.time(), client_index=client
        )
        self.send(b"\x00", *self.encoder.encode(request), client=client)

    def abort(self, *names):
        self.send(b"\x01", *self.encoder.encode(list(names)))

    def call(self, method, *args, call_id=7):
        self.send(b"\x03", *self.encoder.encode(wire.UtilityRequest(0, call_id, method, list(args))))
        while True:
            message = self.message()
            if message.utility_output is not None:
                return message.utility_output

    def message(self, client=0, timeout_s=20):
        return self.decoder.decode(self.receive(self.outputs[client], timeout_s))

    def collect(self, *names, client=0):
        """Tokens of each request and its last output, once all have ended."""
        tokens, last = {name: [] for name in names}, {}
        while len(last) < len(names):
            for output in self.message(client).outputs:
                if output.request_id in tokens:
                    tokens[output.request_id] += output.new_token_ids
                    if output.finish_reason is not None:
                        last[output.request_id] = output
        return tokens, last

    def close(self):
        self.context.destroy(linger=0)


FAKE_PROCESS = """
import sys
from vllm_rs.core.fake_executor import FakeExecutor
from vllm_rs.core.proc import main
sys.exit(main(lambda config: FakeExecutor({arguments})))
"""


class EngineProcess:
    """`vllm_rs.core.proc` with the fake executor."""

    def __init__(self, config_line, arguments=""):
        self.process = subprocess.Popen(
            [sys.executable, "-c", FAKE_PROCESS.format(arguments=arguments)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.events = []
        self.log = []
        self._readers = [threading.Thread(target=self._read_events), threading.Thread(target=self._read_log)]
        for reader in self._readers:
            reader.start()
        self.process.stdin.write(config_line + b"\n")
        self.process.stdin.flush()

    def _read_events(self):
        for line in self.process.stdout:
            self.events.append(json.loads(line))

    def _read_log(self):
        for line in self.process.stderr:
            self.log.append(line.decode())

    def wait(self, timeout_s=20):
        code = self.process.wait(timeout_s)
        for reader in self._readers:
            reader.join(timeout_s)
        return code

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            pipe.close()


@pytest.fixture
def make_frontend(tmp_path):
    made = []

    def make(**options):
        made.append(Frontend(tmp_path, **options))
        return made[-1]

    yield make
    for frontend in made:
        frontend.close()


@pytest.fixture
def frontend(make_frontend):
    return make_frontend()


@pytest.fixture
def start_process():
    made = []

    def start(config_line, arguments=""):
        made.append(EngineProcess(config_line, arguments))
        return made[-1]

    yield start
    for process in made:
        process.close()
