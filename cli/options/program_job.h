#ifndef STRATA_CLI_OPTIONS_PROGRAM_JOB_H_
#define STRATA_CLI_OPTIONS_PROGRAM_JOB_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"

namespace strata::cli {

// What `strata run` says of the program that it makes a job of.
struct ProgramOptions {
  std::vector<std::string> words;  // PROGRAM ARGS
  std::string python = "python3";  // interpreter of programs that end with ".py"
  std::string name;                // of the job; empty: the program's
  uint32_t ranks = 1;
  uint32_t nodes = 1;
};

// Returns the job, with defaults left out: its program with arguments and environment (the launch
// file's name in STRATA_LAUNCH; RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE as other
// launchers have them; the job's seed in STRATA_SEED), its name and ranks. A script names its
// optimizer itself when it starts, unless a setting does. A program with a '/' or one that is a
// file here gets an absolute path; others are looked for in PATH. Errors: InvalidArgument (no
// program), NotFound (a file that is not there).
absl::StatusOr<proto::Job> MakeProgramJob(const ProgramOptions& options);

// A job whose ranks all share one node, and whose mode waits for all of them, needs no server:
// makes its exchange a ring of that node. Returns whether it did; a job that no ring carries stays
// as it is.
bool LeaveOutServers(proto::Job* job);

}  // namespace strata::cli

#endif  // STRATA_CLI_OPTIONS_PROGRAM_JOB_H_
