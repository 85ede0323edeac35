#ifndef STRATA_CLI_COMMANDS_COMMAND_TREE_H_
#define STRATA_CLI_COMMANDS_COMMAND_TREE_H_

#include <map>
#include <string>
#include <vector>

namespace CLI {
class App;
}  // namespace CLI

namespace strata::cli {

// The type of an option's or argument's value, as far as a shell can complete it.
enum class ValueKind { kNone, kOther, kChoice, kFile, kFolder };

struct DescribedOption {
  std::vector<std::string> names;  // "-n", "--ranks"; for an argument its one name without dashes
  ValueKind kind = ValueKind::kNone;
  std::vector<std::string> choices;  // for kChoice; possibly not all values
  std::string value;                 // "N", "TEXT", "text|json"; empty: no value
  std::string limits;                // "1 to 1024"; empty: unknown
  std::string default_value;         // empty: none, or the meaning gives it
  std::string meaning;
  std::vector<std::string> needs, excludes;  // names, sorted
  bool is_required = false;
  bool is_repeatable = false;
};

struct DescribedCommand {
  std::vector<std::string> path;  // "strata", "checkpoint", "list"
  std::string meaning;
  std::string footer;
  std::vector<DescribedOption> options, arguments;
  std::vector<DescribedCommand> commands;
};

// Describes a parser and all commands below it, in the order of its help, without hidden ones.
DescribedCommand Describe(const CLI::App& app);

// "strata checkpoint list".
std::string FullName(const DescribedCommand& command);

// Makes --help of `app`, and of commands added to it later, show each option with only its values
// and default, in lines that fit a terminal. --help-all shows ranges, relations and kMoreOptions as
// the parser does.
void UseShortHelp(CLI::App* app);

// Returns a script for completion of a program's commands, options and values in bash: choices by
// name, files and folders for such values. `root` is the program. The script calls no program.
std::string BashCompletion(const DescribedCommand& root);

// Returns the man pages of a program and of each command below it, by file name: strata.1,
// strata-checkpoint-list.1. `version` ("strata 1.0") is in each; the same arguments give the same
// bytes.
std::map<std::string, std::string> ManPages(const DescribedCommand& root,
                                            const std::string& version);

}  // namespace strata::cli

#endif  // STRATA_CLI_COMMANDS_COMMAND_TREE_H_
