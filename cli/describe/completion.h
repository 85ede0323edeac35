#ifndef STRATA_CLI_DESCRIBE_COMPLETION_H_
#define STRATA_CLI_DESCRIBE_COMPLETION_H_

#include <string>

#include "cli/describe/command_tree.h"

namespace strata::cli {

// Scripts that complete a program's commands, options and values in a shell: choices by name, files
// and folders where a value is one. `root` is the program. They call no program themselves.
std::string BashCompletion(const DescribedCommand& root);
std::string ZshCompletion(const DescribedCommand& root);
std::string FishCompletion(const DescribedCommand& root);

}  // namespace strata::cli

#endif  // STRATA_CLI_DESCRIBE_COMPLETION_H_
