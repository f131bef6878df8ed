#!/usr/bin/python3
"""One beginning, several ends: a session that is forked, then a prompt with n continuations.

    /usr/bin/python3 client/python/luna_fork.py [HOST:PORT]
"""
import sys

import grpc

import stubs

stubs.load()
from luna.v1 import inference_pb2, inference_pb2_grpc, monitor_pb2, monitor_pb2_grpc  # noqa: E402
from luna.v1 import session_pb2, session_pb2_grpc  # noqa: E402


def answer(inference, text, seed, **where):
    request = inference_pb2.GenerateRequest(text=text, **where)
    request.sampling.seed = seed
    request.stopping.max_tokens = 24
    return inference.GenerateUnary(request)


def main():
    address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:50051"
    with grpc.insecure_channel(address) as channel:
        inference = inference_pb2_grpc.InferenceServiceStub(channel)
        sessions = session_pb2_grpc.SessionServiceStub(channel)
        monitor = monitor_pb2_grpc.MonitorServiceStub(channel)

        # A fork goes on from where the first session is; what both have in common is in memory once.
        first = sessions.CreateSession(session_pb2.CreateSessionRequest(label="python"))
        answer(inference, "Once upon a time there was a lighthouse by the sea.", 1,
               session_id=first.id)
        fork = sessions.ForkSession(session_pb2.ForkSessionRequest(session_id=first.id))
        for session, text in ((first, " In summer"), (fork, " In winter")):
            print(f"{text}:{answer(inference, text, 1, session_id=session.id).text}")
            memory = monitor.GetSessionMemory(
                monitor_pb2.GetSessionMemoryRequest(session_id=session.id))
            print(f"[{memory.private_blocks} blocks of its own, {memory.shared_blocks} shared]")
        for session in (first, fork):
            sessions.CloseSession(session_pb2.CloseSessionRequest(session_id=session.id))

        # Without a session: three continuations, each with a seed of its own.
        prompt = "The door opened, and"
        response = answer(inference, prompt, 1, n=3)
        for one in (response, *response.others):
            print(f"seed {one.seed}: {prompt}{one.text}")


if __name__ == "__main__":
    try:
        main()
    except grpc.RpcError as error:
        sys.exit(f"{error.code().name}: {error.details()}")
