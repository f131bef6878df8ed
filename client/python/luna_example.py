#!/usr/bin/python3
"""Talks to a Luna server: streams two answers in one session, then looks at its memory.

    /usr/bin/python3 client/python/luna_example.py [HOST:PORT]
"""
import sys

import grpc

import stubs

stubs.load()
from luna.v1 import inference_pb2, inference_pb2_grpc, monitor_pb2, monitor_pb2_grpc  # noqa: E402
from luna.v1 import session_pb2, session_pb2_grpc  # noqa: E402


def main():
    address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:50051"
    with grpc.insecure_channel(address) as channel:
        inference = inference_pb2_grpc.InferenceServiceStub(channel)
        sessions = session_pb2_grpc.SessionServiceStub(channel)
        monitor = monitor_pb2_grpc.MonitorServiceStub(channel)

        model = inference.GetModel(inference_pb2.GetModelRequest())
        print(f"{model.name}: {model.context_length} tokens of context")
        if model.has_chat_template:
            prompts = ["Tell me about the moon in one sentence.", "And the sun?"]
        else:
            prompts = ["Once upon a time, in a small village,", " The next morning,"]

        # A session remembers what was said, and keeps what was computed for it.
        session = sessions.CreateSession(session_pb2.CreateSessionRequest(label="python"))
        for text in prompts:
            print(f"\n{text}", end="", flush=True)
            request = inference_pb2.GenerateRequest(session_id=session.id, text=text)
            request.sampling.temperature = 0.8
            request.sampling.seed = 1
            request.stopping.max_tokens = 60
            for event in inference.Generate(request):
                kind = event.WhichOneof("event")
                if kind == "delta":
                    print(event.delta.text, end="", flush=True)
                elif kind == "finished":
                    usage = event.finished.usage
                    print(f"\n[{usage.completion_tokens} tokens; of the prompt's "
                          f"{usage.prompt_tokens}, {usage.cached_tokens} were known]")

        memory = monitor.GetSessionMemory(
            monitor_pb2.GetSessionMemoryRequest(session_id=session.id))
        print(f"\n{memory.tokens} tokens in {memory.private_blocks + memory.shared_blocks} blocks, "
              f"{memory.charged_bytes:,} bytes of cache")
        sessions.CloseSession(session_pb2.CloseSessionRequest(session_id=session.id))


if __name__ == "__main__":
    try:
        main()
    except grpc.RpcError as error:
        sys.exit(f"{error.code().name}: {error.details()}")
