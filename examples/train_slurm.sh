#!/bin/bash
# A training on a SLURM cluster: it saves two minutes before its time is over and is queued again until it has ended.
#     sbatch train_slurm.sh
# A job keeps its number when it is queued again, and so the folder of the run is found.
# With torchrun in place of python write TERM for USR1, because torchrun passes only SIGTERM on.
#SBATCH --time=04:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=USR1@120

srun python -m torch_batchsim.train cartpole --run-dir "runs/cartpole-$SLURM_JOB_ID" --resume auto
status=$?
if [ $status -eq 130 ]; then scontrol requeue "$SLURM_JOB_ID"; fi
exit $status
