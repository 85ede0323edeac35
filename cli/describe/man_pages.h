#ifndef STRATA_CLI_DESCRIBE_MAN_PAGES_H_
#define STRATA_CLI_DESCRIBE_MAN_PAGES_H_

#include <map>
#include <string>

#include "cli/describe/command_tree.h"

namespace strata::cli {

// Returns the pages of a program and of each command below it, in the language of man(7), by the
// names of their files: strata.1, strata-checkpoint-list.1. `version` ("strata 1.0") stands in
// each; the same arguments give the same bytes.
std::map<std::string, std::string> ManPages(const DescribedCommand& root,
                                            const std::string& version);

}  // namespace strata::cli

#endif  // STRATA_CLI_DESCRIBE_MAN_PAGES_H_
