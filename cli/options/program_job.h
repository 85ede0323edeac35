#ifndef STRATA_CLI_OPTIONS_PROGRAM_JOB_H_
#define STRATA_CLI_OPTIONS_PROGRAM_JOB_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/options/options.h"
#include "compare/analysis.h"
#include "proto/job.pb.h"

namespace strata::cli {

// The program that `strata run` turns into a job.
struct ProgramOptions {
  std::vector<std::string> words;  // PROGRAM ARGS
  std::string python = "python3";  // interpreter of programs ending in ".py"
  std::string name;                // of the job; empty: the program's
  uint32_t ranks = 1;
  uint32_t nodes = 1;
};

// Returns the job, without defaults: its program with arguments and environment (the launch file's
// name in STRATA_LAUNCH; RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE like other launchers;
// the job's seed in STRATA_SEED), its name and ranks. A script names its optimizer itself when it
// starts, unless a setting does. A program with a '/' or one that is a file here gets an absolute
// path; others are searched in PATH. Errors: InvalidArgument (no program), NotFound (a missing
// file).
absl::StatusOr<proto::Job> MakeProgramJob(const ProgramOptions& options);

// A job whose ranks all share one node, and whose mode waits for all of them, needs no server:
// changes its exchange to a ring of that node. Returns whether it did; a job that a ring does not
// support is unchanged.
bool LeaveOutServers(proto::Job* job);

// The workload of `strata compare` and `strata sweep`, and its metric: a job file, or a program (a
// script named *.py, or an executable file), which becomes a job as in `strata run`.
struct ComparedJob {
  JobOptions job;                 // `path`: the job file or the program
  std::vector<std::string> args;  // of the program
  ProgramOptions program;         // without its words; the caller sets `nodes`
  std::string metric = "test_accuracy", goal;
};

// Adds JOB, ARGS, -n, --python, --metric and --goal.
void AddComparedJob(CLI::App* command, ComparedJob* options);

// Returns the job, without defaults. Errors as of LoadJobAsWritten and MakeProgramJob;
// InvalidArgument: options of a program for a job file.
absl::StatusOr<proto::Job> LoadComparedJob(const ComparedJob& options);

// Returns the metric of runs of that job. Errors: InvalidArgument naming the option.
absl::StatusOr<compare::Metric> MetricOf(const ComparedJob& options, const proto::Job& job);

}  // namespace strata::cli

#endif  // STRATA_CLI_OPTIONS_PROGRAM_JOB_H_
