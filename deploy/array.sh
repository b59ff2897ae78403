#!/bin/bash
# A campaign as an array of Slurm jobs, in a folder that all machines see and that has campaign.toml:
#
#     sbatch deploy/array.sh
#
# Each job plays one share into campaign.I.sqlite; one that is requeued goes on with it. Afterwards:
#
#     squall campaign --merge campaign.*.sqlite --store all.sqlite
#SBATCH --job-name=squall
#SBATCH --array=0-7
#SBATCH --cpus-per-task=16
#SBATCH --mem-per-cpu=2G
#SBATCH --time=08:00:00
#SBATCH --requeue
set -euo pipefail

# The array must begin at 0: its numbers are those of the shares.
exec squall campaign campaign.toml --on index \
    --index "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT" \
    --jobs "$SLURM_CPUS_PER_TASK" --worker-memory 1500M --resume
