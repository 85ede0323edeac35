#ifndef STRATA_CLI_OPTIONS_COMPARED_JOB_H_
#define STRATA_CLI_OPTIONS_COMPARED_JOB_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/options/options.h"
#include "cli/options/program_job.h"
#include "compare/statistics/metric.h"
#include "proto/job.pb.h"

namespace strata::cli {

// What `strata compare` and `strata sweep` run, and judge it by: a job file, or a program (a script
// named *.py, or an executable file), of which they make a job as `strata run` does.
struct ComparedJob {
  JobOptions job;                 // path: the job file or the program
  std::vector<std::string> args;  // of the program
  ProgramOptions program;         // without its words; `nodes` is the caller's to set
  std::string metric = "test_accuracy", goal;
};

// Adds JOB, ARGS, -n, --python, --metric and --goal.
void AddComparedJob(CLI::App* command, ComparedJob* options);

// Returns the job with defaults left out. Errors as of LoadJobAsWritten and MakeProgramJob;
// InvalidArgument: options of a program for a job file.
absl::StatusOr<proto::Job> LoadComparedJob(const ComparedJob& options);

// Errors: InvalidArgument naming the option.
absl::StatusOr<compare::Metric> MetricOf(const ComparedJob& options);

}  // namespace strata::cli

#endif  // STRATA_CLI_OPTIONS_COMPARED_JOB_H_
