#!/bin/bash
# A run of pace on the nodes of one job of Slurm: sbatch configs/cluster/slurm.sh
# Before: pace-async[ray] in one environment on all nodes, bubblewrap on each, and one token:
#   ray get-auth-token --generate    # once, in a home folder that the nodes share
#SBATCH --job-name=pace
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --signal=B:TERM@120
#SBATCH --requeue
#SBATCH --open-mode=append
set -eu

RUN=${RUN:-runs/slurm}
CONFIG=${CONFIG:-configs/cluster/slurm.yaml}
export RAY_AUTH_MODE=token
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)

# `ray symmetric-run` starts Ray on every node, and the command on the first one. It ends Ray when the command has ended.
if [ -d "$RUN" ]; then command=(pace resume "$RUN"); else command=(pace run --config "$CONFIG" --run-dir "$RUN"); fi
srun --nodes="$SLURM_JOB_NUM_NODES" --ntasks="$SLURM_JOB_NUM_NODES" \
  ray symmetric-run --address "$head:6379" --min-nodes "$SLURM_JOB_NUM_NODES" --num-cpus "$SLURM_CPUS_PER_TASK" \
  -- env RAY_ADDRESS="$head:6379" "${command[@]}" --display plain &

# Bash gets the signal, and passes it on. The run drains, and the next job goes on with it.
trap 'kill -TERM $!; wait $!' TERM
wait $!
