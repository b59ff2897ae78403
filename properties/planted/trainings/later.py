"""Bugs that were written down before anybody knew what the campaign makes of them."""

from __future__ import annotations

from functools import partial

from squall.properties.planted.trainings.users import Mistake
from squall.sim.search.mutants.mutant import Mutant

RANK = 400
bug = partial(Mutant, groups=True)
_FSDP = "torch.distributed.fsdp._fully_shard"
MUTANTS = (
    # -- of users ---------------------------------------------------------------------------
    Mistake(
        r"^( +)loss_of\(model, step, round, share\)\.backward",
        r"\1(loss_of(model, step, round, share) * ROUNDS).backward",
    ).planted("accumulated gradients are not divided by rounds"),
    Mistake(r", make_optimizer\(model\)\]", r", make_optimizer(copy.deepcopy(single))]").planted(
        "an optimizer of other parameters"
    ),
    Mistake(r"mirror, share = single, (rank.*)$", r"mirror, share = single, 0").planted(
        "all ranks train on one share"
    ),
    Mistake(
        r"^( +)each\.zero_grad\(\)",
        r"\1each.zero_grad() if rank != 1 or each is optimizers[0] else None",
    ).planted("gradients stay on one rank"),
    # -- of PyTorch -------------------------------------------------------------------------
    bug(
        name="weights-are-not-sent-at-first",
        wrong="DistributedDataParallel begins without sending the parameters of rank 0",
        place="torch.distributed.utils:_sync_module_states",
        old="    _sync_params_and_buffers(",
        new="    (lambda *_, **__: None)(",
    ),
    bug(
        name="first-layer-is-not-reduced",
        wrong="a sharded module whose input needs no gradient is not seen to after a backward pass",
        place=f"{_FSDP}._fsdp_state:FSDPState._root_post_backward_final_callback",
        old="                    fsdp_param_group.post_backward()\n",
        new="                    pass\n",
    ),
    bug(
        name="stage-reduces-its-outermost-alone",
        wrong="a stage reduces the gradients of its outermost sharded module alone",
        place="torch.distributed.pipelining.stage:_PipelineStageBase.perform_reduce_grad",
        old="in distributed_state._state_ctx.all_states:",
        new="in distributed_state._state_ctx.all_states[:1]:",
        unseen="what is called next reduces the others",
    ),
    bug(
        name="batch-cut-by-the-remainder",
        wrong="a batch is cut into parts of which the last may be smaller than the first ones",
        place="torch.distributed.pipelining.microbatch:_split_tensor",
        old="        chunk_tensors = torch.tensor_split(tensor, num_chunks, spec.split_dim)\n",
        new="        chunk_tensors = torch.chunk(tensor, num_chunks, spec.split_dim)[::-1]\n",
        unseen="each part of a batch that is drawn has two rows, and the order of parts changes no sum",
    ),
    bug(
        name="later-tensor-is-read-at-once",
        wrong="a tensor of a functional collective is read before the collective is over",
        place="torch.distributed._functional_collectives:AsyncCollectiveTensor.trigger_wait",
        old="        out = wait_tensor(self.elem)\n",
        new="        out = self.elem\n",
    ),
    bug(
        name="mesh-gives-the-first-group",
        wrong="a mesh gives the group of its first dimension, whichever is asked for",
        place="torch.distributed.device_mesh:DeviceMesh.get_group",
        old="self._dim_group_names[mesh_dim])",
        new="self._dim_group_names[0])",
    ),
    # -- of what carries groups here --------------------------------------------------------
    bug(
        name="strides-are-not-looked-at",
        wrong="of a tensor that does not lie in one piece the memory is sent as it is",
        place="squall.sim.stock.digests:dense_of",
        old="    return tensor if tensor.is_contiguous() else tensor.detach().contiguous()\n",
        new="    return tensor\n",
        unseen="tensors that are drawn lie in one piece; gloo itself takes others for such",
    ),
    bug(
        name="members-in-the-order-they-came",
        wrong="the members of a group are in the order in which they came to it",
        place="squall.sim.stock.groups:NativeGroups._join",
        old="for member in sorted(come)}",
        new="for member in come}",
        unseen="which link a message takes shows in what a fault of a link hits, and no check looks at that",
    ),
    bug(
        name="store-waits-for-one-key",
        wrong="whoever waits for several keys of a store goes on with the first",
        place="squall.sim.scripts.stores:Stores.missing",
        old="for key in keys if",
        new="for key in keys[:1] if",
    ),
    bug(
        name="filled-buffers-count-as-written",
        wrong="a tensor that two receives fill one after the other counts as written to too early",
        place="squall.sim.stock.group_guest:Member.run",
        old="            taken.filled(under_way)\n",
        new="",
        unseen="no two receives that are drawn fill one buffer at a time",
    ),
    # -- the same again, after what was missing for those above was drawn ---------------------
    Mistake(
        r"\[torch\.empty_like\(mine\) for _ in AMONG\]", r"[torch.empty_like(mine)] * len(AMONG)"
    ).planted("one tensor for all that is gathered"),
    Mistake(
        r"dist\.new_group\((\[[^]]*\])\)",
        r"(dist.new_group(\1) if dist.get_rank() in \1 else None)",
    ).planted("a group that its members alone make"),
    Mistake(r"(optim\.\w+\(trained, lr=0\.\d+)", r"\1 * (1 + dist.get_rank())").planted(
        "another learning rate on each rank"
    ),
    bug(
        name="output-has-no-tensor",
        wrong="DistributedDataParallel finds no tensor in what a model returns",
        place="torch.nn.parallel.distributed:_find_tensors",
        old="        return [obj]\n",
        new="        return []\n",
    ),
    bug(
        name="input-gradients-are-kept",
        wrong="a stage keeps the gradients of its inputs",
        place="torch.distributed.pipelining._backward:stage_backward",
        old="                val.grad = None\n",
        new="                pass\n",
        unseen="it keeps memory alone",
    ),
    bug(
        name="shards-from-behind",
        wrong="rank 0 has the last shard of a parameter",
        place=f"{_FSDP}._fsdp_common:FSDPMeshInfo.__post_init__",
        old="self.shard_process_group.rank()",
        new="self.shard_mesh_size - 1 - self.shard_process_group.rank()",
    ),
    bug(
        name="file-is-written-while-it-is-read",
        wrong="a file of large tensors is written again while others read it",
        place="squall.sim.stock.memory_file:LentFiles._is_free",
        old=""" and os.pread(file.fd, 1, 0) == b"\\0\"""",
        new="",
    ),
    bug(
        name="all-but-one-have-called",
        wrong="a collective counts as called by all when one has not",
        place="squall.sim.scripts.groups:Groups._begin",
        old="    if group.called[tag] == group.size:\n",
        new="    if group.called[tag] == group.size - 1:\n",
        unseen="fewer processes go on before their turn, which takes real time alone",
    ),
    # -- a third time -----------------------------------------------------------------------
    Mistake(
        r"for each in optimizers:\n( +)each\.zero_grad\(\)",
        r"for each in optimizers[:1]:\n\1each.zero_grad()",
    ).planted("gradients of all steps are added up"),
    Mistake(r"^( +)each\.step\(\)", r"\1each.step() if dist.get_rank() or step else None").planted(
        "rank 0 leaves the first step out"
    ),
    Mistake(r"given = values if rank", "given = values[::-1] if rank").planted(
        "what is scattered is the wrong way round"
    ),
    bug(
        name="object-without-its-end",
        wrong="an object is sent without its last byte",
        place="torch.distributed.distributed_c10d:_object_to_tensor",
        old="f.getvalue()",
        new="f.getvalue()[:-1]",
    ),
    bug(
        name="last-rank-sends-no-parameters",
        wrong="a ZeroRedundancyOptimizer does not send the parameters of the last rank",
        place="torch.distributed.optim.zero_redundancy_optimizer:ZeroRedundancyOptimizer._sync_params",
        old="range(self.world_size)",
        new="range(self.world_size - 1)",
    ),
    bug(
        name="padding-stays",
        wrong="what is gathered of unequal shards keeps what filled them up",
        place="torch.distributed.tensor.placement_types:Shard._to_replicate_tensor",
        old="    result = self._maybe_unpad_tensor(result, logical_dim_size, num_chunks)\n",
        new="    pass\n",
    ),
    bug(
        name="no-sync-for-ever",
        wrong="after no_sync no gradient is reduced any more",
        place="torch.nn.parallel.distributed:DistributedDataParallel.no_sync",
        old="self.require_backward_grad_sync = old_require_backward_grad_sync",
        new="self.require_backward_grad_sync = False",
    ),
    bug(
        name="gradients-by-one-chunk-more",
        wrong="a schedule divides gradients by one chunk more than there are",
        place="torch.distributed.pipelining.stage:_PipelineStageBase.scale_grads",
        old="div_(grad_scale_factor)",
        new="div_(grad_scale_factor + 1)",
    ),
    bug(
        name="mean-is-a-sum",
        wrong="the mean of tensors is their sum",
        place="squall.sim.scripts.reductions:reduced",
        old='return total.div_(len(tensors)) if name == "AVG" else total',
        new="return total",
    ),
    bug(
        name="notices-are-not-counted",
        wrong="of several members' notices that come early one is kept",
        place="squall.sim.scripts.groups:Groups.notice",
        old="group.notices[dst, src, tag] += 1",
        new="group.notices[dst, src, tag] = 1",
    ),
)
