"""Devices: maps, and streams that have to wait for each other. Shown on the stand-in device."""

from __future__ import annotations

from functools import partial

from squall.sim.search.mutants.mutant import Mutant

RANK = 120
_on_device = partial(Mutant, device="stand-in")
MUTANTS = (
    _on_device(
        name="device-gradients-not-awaited",
        origin="p53769, p53929, p54358",
        wrong="gradients that arrive on one stream are read on another without waiting",
        place="autograd.device_threads:DeviceThreads.wait_for_grads",
        old="if arrived != stream:",
        new="if False:",
    ),
    _on_device(
        name="gradient-used-before-its-event",
        origin="p53769",
        wrong="a node reads a gradient that another stream still computes",
        place="autograd.device_threads:DeviceThreads.hand_over",
        old="consumer.wait_event(produced.record_event())",
        new="pass",
    ),
    _on_device(
        name="gradient-memory-not-recorded",
        origin="own",
        wrong="the memory of a gradient is given away while another stream reads it",
        place="autograd.device_threads:DeviceThreads.hand_over",
        old="grad.record_stream(consumer)",
        new="pass",
    ),
    _on_device(
        name="node-on-the-caller-stream",
        origin="own",
        wrong="gradients are handed to the stream of a node's forward, and it runs on another one",
        place="autograd.device_threads:DeviceThreads.on_stream",
        old="on_streams((stream,))",
        new="on_streams(())",
    ),
    _on_device(
        name="leaf-streams-not-joined",
        origin="own",
        wrong="the end of a pass does not wait for the streams that it ran on",
        place="autograd.graph_task:GraphTask.exec_post_processing",
        old="caller.wait_event(stream.record_event())",
        new="pass",
        unseen="each stream is waited for by the streams that its gradients go to, in the end those of "
        "leaves and of messages, which are the caller's",
    ),
    _on_device(
        name="accumulated-on-an-unordered-stream",
        origin="p57792",
        wrong="a gradient is added on one stream while another still adds the one before",
        place="autograd.context:DistAutogradContext._accumulate_on_device",
        old="stream.wait_event(before)",
        new="pass",
    ),
    _on_device(
        name="gradients-read-before-their-event",
        origin="p57792",
        wrong="who asks a context for gradients reads them before they are added",
        place="autograd.context:DistAutogradContext.get_gradients",
        old="stream.wait_event(event)",
        new="pass",
    ),
    _on_device(
        name="reply-not-awaited",
        origin="p50949",
        wrong="who waits for a future reads its value while the device still computes it",
        place="device_value:DeviceValue.wait",
        old="stream.wait_event(event)",
        new="pass",
    ),
    _on_device(
        name="reply-memory-not-recorded",
        origin="own",
        wrong="the memory of a future's value is given away while the stream that waited reads it",
        place="device_value:DeviceValue.wait",
        old="tensor.record_stream(stream)",
        new="pass",
    ),
    _on_device(
        name="future-without-events",
        origin="own",
        wrong="a future forgets on which streams it was completed",
        place="device_value:DeviceValue.record",
        old="for device in self.devices",
        new="for device in ()",
    ),
    _on_device(
        name="callback-on-an-unsynchronized-stream",
        origin="own",
        wrong="a callback of a future runs on a stream that does not wait for the value",
        place="device_value:DeviceValue.on_fresh_streams",
        old="stream.wait_event(event)",
        new="pass",
    ),
    _on_device(
        name="copy-before-the-sender-is-done",
        origin="own",
        wrong="a message is copied to its device while the sender still computes it",
        place="rpc.device_copies:_move",
        old="stream.wait_event(here.record_event())",
        new="pass",
    ),
    _on_device(
        name="request-on-the-default-stream",
        origin="p60606, i59793",
        wrong="a request runs on the default streams, not on those that its tensors arrive on",
        place="rpc.agent:RpcAgent._handle",
        old="with on_streams(request.streams):",
        new="with on_streams(()):",
    ),
    _on_device(
        name="resumed-request-on-other-streams",
        wrong="a request that waited for confirmations goes on on the streams of whoever brought them",
        place="rpc.request_callback:RequestCallback._process",
        old="with on_streams(request.streams):",
        new="with on_streams(()):",
    ),
    _on_device(
        name="device-map-not-inverted",
        origin="i44170, p44859",
        wrong="a reply goes by the map of requests, not by its inverse",
        place="rpc.devices:devices_of_worker",
        old="{to: source for source, to in info.maps[name].items()}",
        new="dict(info.maps[name])",
    ),
    _on_device(
        name="gradients-by-the-wrong-map",
        origin="i44170, p44859",
        wrong="gradients of what a call brought go by the map of replies' tensors",
        place="rpc.agent:RpcAgent.way_back",
        old="self.reverse_device_maps if request else self.device_maps",
        new="self.reverse_device_maps if not request else {}",
    ),
    _on_device(
        name="continuations-without-a-cpu-queue",
        origin="p40255",
        wrong="what follows a node of a device finds no ready queue of the CPU",
        place="autograd.device_threads:DeviceThreads._run",
        old="graph_task, task.fn, task.inputs, graph_task.cpu_ready_queue",
        new="graph_task, task.fn, task.inputs, None",
        unseen="programs have all tensors on devices, and no node of the CPU follows one of a device "
        "(properties/real/rpc/test_devices.py has such a pass)",
    ),
    _on_device(
        name="streams-of-arguments-alone",
        origin="i54017",
        wrong="a request has streams for the devices of its tensors alone, not for those of its results",
        place="rpc.agent:RpcAgent._handle",
        old="pool_streams(self.devices, request.streams)",
        new="pool_streams((), request.streams)",
        unseen="a reply waits for whatever streams are current on the devices of its tensors, also where "
        "those are the default ones",
    ),
)
