#ifndef STRATA_CLI_DESCRIBE_COMMAND_TREE_H_
#define STRATA_CLI_DESCRIBE_COMMAND_TREE_H_

#include <string>
#include <vector>

namespace CLI {
class App;
}  // namespace CLI

namespace strata::cli {

// What an option or an argument takes, as far as a shell can offer it.
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

}  // namespace strata::cli

#endif  // STRATA_CLI_DESCRIBE_COMMAND_TREE_H_
