#ifndef STRATA_CLI_COMMANDS_COMMAND_TREE_H_
#define STRATA_CLI_COMMANDS_COMMAND_TREE_H_

#include <map>
#include <string>
#include <vector>

namespace CLI {
class App;
}  // namespace CLI

namespace strata::cli {

// The value of an option or an argument, as far as a shell can offer it.
enum class ValueKind { kNone, kOther, kChoice, kFile, kFolder };

struct DescribedOption {
  std::vector<std::string> names;  // "-n", "--ranks"; of an argument without dashes its one name
  ValueKind kind = ValueKind::kNone;
  std::vector<std::string> choices;  // of kChoice; what else it may take is not among them
  std::string value;                 // "N", "TEXT", "text|json"; empty: it takes none
  std::string limits;                // "1 to 1024"; empty: none are known
  std::string default_value;         // empty: it has none, or the meaning says it
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

// Describes a parser and all commands below it, in the order in which help has them, without what
// help hides.
DescribedCommand Describe(const CLI::App& app);

// "strata checkpoint list".
std::string FullName(const DescribedCommand& command);

// Has --help of `app`, and of commands that are added to it later, show each option with its values
// and default alone, in lines that fit a terminal. --help-all has ranges, relations and
// kMoreOptions as the parser shows them.
void UseShortHelp(CLI::App* app);

// Returns a script by which bash completes a program's commands, options and values: choices by
// name, files and folders where a value is one. `root` is the program. The script calls no program.
std::string BashCompletion(const DescribedCommand& root);

// Returns the pages of a program and of each command below it, in the language of man(7), by the
// names of their files: strata.1, strata-checkpoint-list.1. `version` ("strata 1.0") stands in
// each; the same arguments give the same bytes.
std::map<std::string, std::string> ManPages(const DescribedCommand& root,
                                            const std::string& version);

}  // namespace strata::cli

#endif  // STRATA_CLI_COMMANDS_COMMAND_TREE_H_
