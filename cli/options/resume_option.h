#ifndef STRATA_CLI_OPTIONS_RESUME_OPTION_H_
#define STRATA_CLI_OPTIONS_RESUME_OPTION_H_

#include <CLI/CLI.hpp>
#include <string>

#include "proto/control.pb.h"

namespace strata::cli {

// --resume: where the checkpoints are that a job goes on from.
CLI::Option* AddResumeOption(CLI::App* command, std::string* resume);

// Reads its value: a number is a job's; all else is a folder, as the coordinator's host sees it, or
// a bucket. Empty: the job begins anew.
proto::ResumeFrom ToResumeFrom(const std::string& text);

}  // namespace strata::cli

#endif  // STRATA_CLI_OPTIONS_RESUME_OPTION_H_
