#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "cli/describe/completion.h"

namespace strata::cli {
namespace {

// Text in a specification of _arguments, within single quotes.
std::string Escape(const std::string& text) {
  return absl::StrReplaceAll(
      text,
      {{"\\", "\\\\"}, {"[", "\\["}, {"]", "\\]"}, {":", "\\:"}, {"'", "'\\''"}, {"\n", " "}});
}

std::string FunctionOf(const DescribedCommand& command) {
  return absl::StrCat("_", absl::StrJoin(command.path, "_"));
}

// What completes a value.
std::string Action(const DescribedOption& option) {
  switch (option.kind) {
    case ValueKind::kNone:
      return "";
    case ValueKind::kOther:
      return " ";
    case ValueKind::kChoice:
      return absl::StrCat("(", absl::StrJoin(option.choices, " "), ")");
    case ValueKind::kFile:
      return "_files";
    case ValueKind::kFolder:
      return "_files -/";
  }
  return "";
}

std::string OptionSpecs(const DescribedOption& option) {
  const bool has_value = option.kind != ValueKind::kNone;
  std::string specs;
  for (const std::string& name : option.names) {
    // Once given, neither of its names is offered again.
    const std::string others =
        option.is_repeatable ? "*" : absl::StrCat("(", absl::StrJoin(option.names, " "), ")");
    const bool is_long = name.size() > 2;
    absl::StrAppend(&specs, "    '", others, name, has_value ? (is_long ? "=" : "+") : "", "[",
                    Escape(option.meaning), "]");
    if (has_value) absl::StrAppend(&specs, ":", Escape(option.value), ":", Action(option));
    absl::StrAppend(&specs, "' \\\n");
  }
  return specs;
}

std::string ArgumentSpec(const DescribedOption& argument) {
  const std::string name = Escape(argument.names.front());
  return absl::StrCat("    '", argument.is_repeatable ? "*" : "", ":", name, ":", Action(argument),
                      "' \\\n");
}

// The list of commands below one, and the function that goes on with each.
std::string Dispatch(const DescribedCommand& command) {
  std::string list, cases;
  for (const DescribedCommand& below : command.commands) {
    const std::string& name = below.path.back();
    absl::StrAppend(&list, "        '", Escape(name), ":", Escape(below.meaning), "'\n");
    absl::StrAppend(&cases, "        ", name, ") ", FunctionOf(below), " ;;\n");
  }
  return absl::StrCat("  case $state in\n    command)\n      commands=(\n", list,
                      "      )\n      _describe -t commands command commands\n      ;;\n"
                      "    rest)\n      case $words[1] in\n",
                      cases, "      esac\n      ;;\n  esac\n");
}

void AddFunctions(const DescribedCommand& command, std::string* script) {
  absl::StrAppend(script, FunctionOf(command), "() {\n");
  const bool has_commands = !command.commands.empty();
  if (has_commands) {
    absl::StrAppend(script,
                    "  local curcontext=$curcontext state state_descr line\n"
                    "  local -a commands\n  typeset -A opt_args\n");
  }
  absl::StrAppend(script, "  _arguments ", has_commands ? "-C" : "-s -S", " \\\n");
  for (const DescribedOption& option : command.options) {
    absl::StrAppend(script, OptionSpecs(option));
  }
  for (const DescribedOption& argument : command.arguments) {
    absl::StrAppend(script, ArgumentSpec(argument));
  }
  if (has_commands) {
    absl::StrAppend(script, "    '1: :->command' \\\n    '*:: :->rest'\n", Dispatch(command));
  } else {
    absl::StrAppend(script, "    && return 0\n");
  }
  absl::StrAppend(script, "}\n\n");
  for (const DescribedCommand& below : command.commands) AddFunctions(below, script);
}

}  // namespace

std::string ZshCompletion(const DescribedCommand& root) {
  const std::string& name = root.path.back();
  std::string script = absl::StrCat("#compdef ", name, "\n# zsh completion for ", name,
                                    ", written by \"", name, " completion zsh\".\n\n");
  AddFunctions(root, &script);
  // In a folder of $fpath the file is the function; sourced it says what it completes.
  absl::StrAppend(&script, "if [ \"$funcstack[1]\" = _", name, " ]; then\n  _", name,
                  " \"$@\"\nelse\n  compdef _", name, " ", name, "\nfi\n");
  return script;
}

}  // namespace strata::cli
