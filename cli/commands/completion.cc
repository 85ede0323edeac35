#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "cli/commands/command_tree.h"

namespace strata::cli {
namespace {

// Generated cases know a command by its path, as "strata checkpoint list". No variable has a name
// that is special in zsh (path, words), whose bashcompinit runs the script, too.
constexpr char kScript[] = R"(# bash completion for @, written by "@ completion bash".

# Whether a command has another one below it.
_@_is_command() {
  case $1 in
COMMANDS    *) return 1 ;;
  esac
}

# Sets `value` to what an option takes: nothing, files, folders, other, or words: and the words.
_@_value() {
  value=
  case $1 in
VALUES    *) return 1 ;;
  esac
}

# Sets `names` to the commands and options of a command, and `value` to what its arguments are.
_@_words() {
  names= value=
  case $1 in
WORDS  esac
}

_@() {
  local place=@ value names word current=$2 previous=$3 quote= i
  COMPREPLY=()
  # Within a quote that the user has opened, words stand as they are.
  case ${COMP_WORDS[COMP_CWORD]:-} in
    [\"\']*)
      quote=open
      current=${current#[\"\']}
      ;;
  esac
  # A word such as --mode=sync arrives in three.
  if [ "$current" = = ]; then
    current=
  elif [ "$previous" = = ] && [ "$COMP_CWORD" -gt 1 ]; then
    previous=${COMP_WORDS[COMP_CWORD-2]}
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if _@_is_command "$place $word"; then
      place="$place $word"
    elif _@_value "$place $word" && [ -n "$value" ]; then
      i=$((i + 1))
    fi
  done
  if ! _@_value "$place $previous" || [ -z "$value" ]; then
    _@_words "$place"
    case $current in
      -*) value="words:$names" ;;
      *) [ -n "$value" ] || value="words:$names" ;;
    esac
  fi
  case $value in
    files | folders) compopt -o filenames 2>/dev/null ;;
  esac
  while IFS= read -r word; do
    case $value in
      words:*) [ -n "$quote" ] || printf -v word %q "$word" ;;
    esac
    COMPREPLY+=("$word")
  done < <(
    case $value in
      (files) compgen -f -- "$current" ;;
      (folders) compgen -d -- "$current" ;;
      (words:*) compgen -W "${value#words:}" -- "${current//\\/}" ;;
    esac
  )
}

complete -F _@ @
)";

std::string ValueWord(const DescribedOption& option) {
  switch (option.kind) {
    case ValueKind::kNone:
      return "''";
    case ValueKind::kOther:
      return "other";
    case ValueKind::kChoice:
      return absl::StrCat("'words:", absl::StrJoin(option.choices, " "), "'");
    case ValueKind::kFile:
      return "files";
    case ValueKind::kFolder:
      return "folders";
  }
  return "''";
}

struct Cases {
  std::string commands, values, words;
};

void AddCases(const DescribedCommand& command, bool is_root, Cases* cases) {
  const std::string path = FullName(command);
  if (!is_root) absl::StrAppend(&cases->commands, "    '", path, "') ;;\n");
  std::vector<std::string> words;
  for (const DescribedCommand& below : command.commands) words.push_back(below.path.back());
  for (const DescribedOption& option : command.options) {
    std::vector<std::string> patterns;
    for (const std::string& name : option.names) {
      words.push_back(name);
      patterns.push_back(absl::StrCat("'", path, " ", name, "'"));
    }
    absl::StrAppend(&cases->values, "    ", absl::StrJoin(patterns, " | "),
                    ") value=", ValueWord(option), " ;;\n");
  }
  const std::string argument =
      command.arguments.empty() ? "''" : ValueWord(command.arguments.front());
  absl::StrAppend(&cases->words, "    '", path, "') names='", absl::StrJoin(words, " "),
                  "' value=", argument, " ;;\n");
  for (const DescribedCommand& below : command.commands) AddCases(below, false, cases);
}

}  // namespace

std::string BashCompletion(const DescribedCommand& root) {
  Cases cases;
  AddCases(root, /*is_root=*/true, &cases);
  // One pass: nothing that is put in is looked at again.
  return absl::StrReplaceAll(kScript, {{"@", root.path.back()},
                                       {"COMMANDS", cases.commands},
                                       {"VALUES", cases.values},
                                       {"WORDS  ", cases.words + "  "}});
}

}  // namespace strata::cli
