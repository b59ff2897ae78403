"""Bugs in PyTorch's Python layers above process groups."""

from __future__ import annotations

from functools import partial

from squall.sim.search.mutants.mutant import Mutant

RANK = 200
bug = partial(Mutant, groups=True)
_DDP = "torch.nn.parallel.distributed:DistributedDataParallel"
_ZERO = "torch.distributed.optim.zero_redundancy_optimizer:ZeroRedundancyOptimizer"
_FSDP = "torch.distributed.fsdp._fully_shard"
_STAGE = "torch.distributed.pipelining.stage:_PipelineStageBase"
_SCHEDULES = "torch.distributed.pipelining.schedules"
_C10D = "torch.distributed.distributed_c10d"
_STYLE = "torch.distributed.tensor.parallel.style"
MUTANTS = (
    # -- DistributedDataParallel ------------------------------------------------------------
    bug(
        name="buckets-in-another-order",
        wrong="ranks other than 0 have their buckets in the order of parameters",
        place=f"{_DDP}._ddp_init_helper",
        old="        list(reversed(bucket_indices)),\n",
        new="        bucket_indices[:: 1 if dist.get_rank() else -1],\n",
    ),
    bug(
        name="buffers-of-another-rank",
        wrong="all get the buffers of rank 1, and not those of rank 0",
        place=f"{_DDP}._sync_buffers",
        old="            authoritative_rank = 0\n",
        new="            authoritative_rank = 1\n",
    ),
    bug(
        name="no-sync-is-not-left",
        wrong="once gradients were accumulated they are reduced no more",
        place=f"{_DDP}.no_sync",
        old="        self.require_backward_grad_sync = old_require_backward_grad_sync\n",
        new="        pass\n",
    ),
    bug(
        name="unused-looked-for-on-some-ranks",
        wrong="rank 0 does not look which parameters a pass leaves out",
        place=f"{_DDP}._post_forward",
        old="        if self.find_unused_parameters and not self.static_graph:\n",
        new="        if self.find_unused_parameters and dist.get_rank() and not self.static_graph:\n",
    ),
    bug(
        name="hook-divides-by-one-less",
        wrong="the mean of a communication hook is over one rank less",
        place="torch.distributed.algorithms.ddp_comm_hooks.default_hooks:_allreduce_fut",
        old="    tensor.div_(group_to_use.size())\n",
        new="    tensor.div_(max(1, group_to_use.size() - 1))\n",
    ),
    bug(
        name="hook-is-over-at-once",
        wrong="the future of a communication hook does not wait for its reduction",
        place="torch.distributed.algorithms.ddp_comm_hooks.default_hooks:_allreduce_fut",
        old="""    return (
        dist.all_reduce(tensor, group=group_to_use, async_op=True)
        .get_future()
        .then(lambda fut: fut.value()[0])
    )
""",
        new="""    dist.all_reduce(tensor, group=group_to_use, async_op=True)
    future = torch.futures.Future()
    future.set_result(tensor)
    return future
""",
    ),
    # -- ZeroRedundancyOptimizer ------------------------------------------------------------
    bug(
        name="optimizer-steps-on-one-rank",
        wrong="ranks other than 0 leave their share of the parameters as it was",
        place=f"{_ZERO}.step",
        old="    loss = self._local_step(closure=closure, **kwargs)\n",
        new="    loss = None if self.rank else self._local_step(closure=closure, **kwargs)\n",
    ),
    bug(
        name="parameters-shared-out-by-rank",
        wrong="rank 0 shares the parameters out the smallest first, the others the largest first",
        place=f"{_ZERO}._partition_parameters",
        old="key=lambda t: t.numel(), reverse=True",
        new="key=lambda t: t.numel(), reverse=self.rank > 0",
    ),
    bug(
        name="bucket-split-off-by-one",
        wrong="in a bucket the last element of a parameter is the first one of the next",
        place=f"{_ZERO}._build_param_buckets",
        old="                    offset = offset_next\n",
        new="                    offset = offset_next - 1\n",
    ),
    bug(
        name="parameters-used-before-they-came",
        wrong="nobody waits for the parameters that other ranks have stepped",
        place=f"{_ZERO}._sync_params",
        old="    _ = [x.wait() for x in handles]\n",
        new="    _ = handles\n",
    ),
    # -- fully_shard ------------------------------------------------------------------------
    bug(
        name="stale-parameter-after-all-gather",
        wrong="what is gathered is a shard as it was before the first step",
        place=f"{_FSDP}._fsdp_param:FSDPParam.all_gather_inputs",
        old="        sharded_param_data = self._sharded_param_data\n",
        new="        sharded_param_data = self.__dict__.setdefault('_kept', self._sharded_param_data.clone())\n",
    ),
    bug(
        name="no-reshard-after-backward",
        wrong="parameters stay whole after a backward pass",
        place=f"{_FSDP}._fsdp_param_group:FSDPParamGroup.reshard",
        old="    self._to_sharded()\n",
        new="    if self._training_state == TrainingState.FORWARD:\n        self._to_sharded()\n",
    ),
    bug(
        name="gradient-stays-after-a-pass",
        wrong="the gradient of a whole parameter is still there in the next pass",
        place=f"{_FSDP}._fsdp_param_group:FSDPParamGroup.post_backward",
        old="                fsdp_param.unsharded_param.grad = None\n",
        new="",
    ),
    bug(
        name="sync-is-set-for-the-root-alone",
        wrong="whether gradients are reduced is set for the outermost module alone",
        place=f"{_FSDP}._fully_shard:FSDPModule.set_requires_gradient_sync",
        old="list(self_module.modules()) if recurse else [self_module]",
        new="[self_module]",
    ),
    bug(
        name="divided-by-shards-alone",
        wrong="gradients are divided by the ranks that have shards, and not by those of replicas",
        place=f"{_FSDP}._fsdp_collectives:_get_gradient_divide_factors",
        old="        data_parallel_size *= all_reduce_group.size()\n",
        new="        pass\n",
    ),
    bug(
        name="replicas-are-not-reduced",
        wrong="gradients are reduced among shards, and not among replicas",
        place=f"{_FSDP}._fsdp_collectives:foreach_reduce",
        old="                dist.all_reduce(\n",
        new="                (lambda *_, **__: None)(\n",
    ),
    bug(
        name="gradients-cut-without-padding",
        wrong="of a reduced gradient a rank whose shard is smaller skips too little",
        place=f"{_FSDP}._fsdp_collectives:foreach_reduce",
        old="            padded_sharded_numel = padded_unsharded_size.numel() // world_size\n",
        new="            padded_sharded_numel = fsdp_param.sharded_size.numel()\n",
    ),
    bug(
        name="sharded-gradient-is-overwritten",
        wrong="a gradient that is reduced takes the place of the one of the round before",
        place=f"{_FSDP}._fsdp_collectives:foreach_reduce",
        old="            to_accumulate_grad = fsdp_param.sharded_param.grad is not None\n",
        new="            to_accumulate_grad = False\n",
    ),
    # -- pipelines --------------------------------------------------------------------------
    bug(
        name="stage-sends-twice",
        wrong="a stage sends what it has computed twice",
        place=f"{_STAGE}.get_fwd_send_ops",
        old="    return ops\n",
        new="    return ops * 2\n",
    ),
    bug(
        name="gradients-scaled-twice",
        wrong="gradients are divided by the number of parts of a batch twice",
        place=f"{_STAGE}.perform_reduce_grad",
        old="        self.scale_grads(grad_scale_factor)\n",
        new="        self.scale_grads(grad_scale_factor**2)\n",
    ),
    bug(
        name="weight-pass-twice",
        wrong="a zero-bubble schedule computes the gradients of weights twice",
        place=f"{_STAGE}.backward_weight_one_chunk",
        old="""            self.backward_maybe_with_nosync(
                "weight", bwd_kwargs, last_backward=last_backward
            )
""",
        new="""            groups, before = param_groups, [each.grad for each in self.submod.parameters()]
            self.backward_maybe_with_nosync(
                "weight", bwd_kwargs, last_backward=last_backward
            )
            for each, grad in zip(self.submod.parameters(), before):
                if each.grad is not None:
                    each.grad = each.grad * 2 - (0 if grad is None else grad)
""",
    ),
    bug(
        name="first-work-is-not-waited-for",
        wrong="of several messages the first is not waited for",
        place=f"{_SCHEDULES}:_wait_batch_p2p",
        old="    for w in work:\n",
        new="    for w in work[1:]:\n",
    ),
    bug(
        name="one-warm-up-less",
        wrong="1F1B goes over to backward passes one part of the batch too early",
        place=f"{_SCHEDULES}:Schedule1F1B._step_microbatches",
        old="        self._num_stages - self._stage.stage_index,\n",
        new="        max(1, self._num_stages - self._stage.stage_index - 1),\n",
        unseen="it is a schedule of the same sums, that takes longer",
    ),
    bug(
        name="losses-of-another-part",
        wrong="a part of the batch is compared with the targets of the part before",
        place=f"{_SCHEDULES}:_PipelineSchedule._maybe_compute_loss",
        old="target_mbs[mb_index]",
        new="target_mbs[mb_index - 1]",
    ),
    # -- tensor parallel --------------------------------------------------------------------
    bug(
        name="rows-are-not-added-up",
        wrong="a layer whose rows are on several ranks gives its own part as the sum",
        place=f"{_STYLE}:RowwiseParallel._prepare_output_fn",
        old="        outputs = outputs.redistribute(placements=output_layouts, async_op=True)\n",
        new="        pass\n",
    ),
    bug(
        name="columns-gathered-along-rows",
        wrong="shards are put together along the first dimension, whichever they were cut along",
        place="torch.distributed.tensor.placement_types:Shard._to_replicate_tensor",
        old="        gather_dim=self.dim,\n",
        new="        gather_dim=0,\n",
    ),
    bug(
        name="partial-sum-is-a-mean",
        wrong="what ranks have parts of a sum of becomes their mean",
        place="torch.distributed.tensor.placement_types:Partial._reduce_value",
        old="reduceOp=self.reduce_op, group",
        new="reduceOp='avg' if self.reduce_op == 'sum' else self.reduce_op, group",
    ),
    bug(
        name="input-gradient-is-not-reduced",
        wrong="the gradient of an input that all columns have is that of a rank's own columns",
        place="torch.distributed.tensor._api:_FromTorchTensor.backward",
        old="    if grad_output.placements != normalized_placements:\n",
        new="    if not grad_output.placements[0].is_partial() and grad_output.placements != normalized_placements:\n",
    ),
    # -- torch.distributed ------------------------------------------------------------------
    bug(
        name="group-names-by-rank",
        wrong="rank 0 names groups otherwise than others do",
        origin="i173608",
        place=f"{_C10D}:_process_group_name",
        old="        pg_name = GroupName(str(_world.group_count))\n",
        new="        name = _world.group_count + (100 if _world.group_count and not get_rank() else 0)\n"
        "        pg_name = GroupName(str(name))\n",
    ),
    bug(
        name="last-of-a-batch-is-not-given",
        wrong="of a batch of messages the last work is not returned",
        place=f"{_C10D}:batch_isend_irecv",
        old="        return reqs\n",
        new="        return reqs[:1]\n",
    ),
    bug(
        name="objects-cut-to-the-first",
        wrong="gathered objects are read as if all were as long as the first",
        place=f"{_C10D}:all_gather_object",
        old="        tensor_size = object_size_list[i]\n",
        new="        tensor_size = object_size_list[0]\n",
    ),
    bug(
        name="root-by-its-global-rank",
        wrong="the root of a broadcast in a group is taken for a rank in that group",
        place=f"{_C10D}:broadcast",
        old="    opts.rootRank = group_src\n",
        new="    opts.rootRank = src if src is not None and src < group.size() else group_src\n",
    ),
    bug(
        name="later-reduction-is-a-sum",
        wrong="an all_reduce that is not waited for at once adds up, whatever the operator",
        place=f"{_C10D}:all_reduce",
        old="    opts.reduceOp = op\n",
        new="    opts.reduceOp = ReduceOp.SUM if async_op else op\n",
    ),
)
