#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "cli/describe/completion.h"

namespace strata::cli {
namespace {

// Which command the line is at, as "strata checkpoint list".
constexpr char kFunctions[] = R"(# fish completion for @, written by "@ completion fish".

function __@_is_at
    set -l path @
    set -l words (commandline -opc)
    for word in $words[2..-1]
        switch "$path $word"
            case COMMANDS
                set path "$path $word"
        end
    end
    test "$path" = "$argv[1]"
end

complete -c @ -f
)";

std::string Quoted(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"'", "\\'"}, {"\n", " "}}),
                      "'");
}

// What completes a value, as options of `complete`.
std::string Action(const DescribedOption& option) {
  switch (option.kind) {
    case ValueKind::kNone:
      return "";
    case ValueKind::kOther:
      return " -x";
    case ValueKind::kChoice:
      return absl::StrCat(" -x -a ", Quoted(absl::StrJoin(option.choices, " ")));
    case ValueKind::kFile:
      return " -r -F";
    case ValueKind::kFolder:
      return " -x -a '(__fish_complete_directories)'";
  }
  return "";
}

void AddCommand(const DescribedCommand& command, bool is_root, std::vector<std::string>* paths,
                std::string* lines) {
  const std::string path = FullName(command);
  if (!is_root) paths->push_back(Quoted(path));
  const std::string begin = absl::StrCat("complete -c ", command.path.front(), " -n \"__",
                                         command.path.front(), "_is_at ", Quoted(path), "\"");
  for (const DescribedCommand& below : command.commands) {
    absl::StrAppend(lines, begin, " -a ", Quoted(below.path.back()), " -d ", Quoted(below.meaning),
                    "\n");
  }
  for (const DescribedOption& option : command.options) {
    std::string names;
    for (const std::string& name : option.names) {
      const bool is_long = name.size() > 2;
      absl::StrAppend(&names, is_long ? " -l " : " -s ", name.substr(is_long ? 2 : 1));
    }
    absl::StrAppend(lines, begin, names, Action(option), " -d ", Quoted(option.meaning), "\n");
  }
  if (!command.arguments.empty()) {
    const std::string action = Action(command.arguments.front());
    // One that is no file has nothing to offer.
    if (action != " -x") {
      absl::StrAppend(lines, begin, action == " -r -F" ? " -F" : action, "\n");
    }
  }
  for (const DescribedCommand& below : command.commands) AddCommand(below, false, paths, lines);
}

}  // namespace

std::string FishCompletion(const DescribedCommand& root) {
  std::vector<std::string> paths;
  std::string lines;
  AddCommand(root, /*is_root=*/true, &paths, &lines);
  // A `case` must have one pattern at least.
  if (paths.empty()) paths.push_back("''");
  return absl::StrCat(absl::StrReplaceAll(kFunctions, {{"@", root.path.back()},
                                                       {"COMMANDS", absl::StrJoin(paths, " ")}}),
                      lines);
}

}  // namespace strata::cli
