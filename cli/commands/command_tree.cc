#include "cli/commands/command_tree.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "cli/options/invocation.h"

namespace strata::cli {
namespace {

bool IsWord(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-';
  });
}

// Returns the text between the parentheses of "ssp(3)" or "ssp(s)"; nullopt if it is no call.
std::optional<absl::string_view> ArgumentIn(absl::string_view text) {
  if (!absl::ConsumeSuffix(&text, ")")) return std::nullopt;
  const size_t open = text.find('(');
  if (open == absl::string_view::npos || !IsWord(text.substr(0, open))) return std::nullopt;
  text.remove_prefix(open + 1);
  return IsWord(text) ? std::optional(text) : std::nullopt;
}

bool IsNumber(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c));
  });
}

// Without " (the default)" and the like.
std::string WithoutAsides(absl::string_view text) {
  std::string kept;
  while (!text.empty()) {
    const size_t begin = text.find(" (");
    absl::StrAppend(&kept, text.substr(0, begin));
    if (begin == absl::string_view::npos) break;
    const size_t end = text.find(')', begin);
    text = end == absl::string_view::npos ? "" : text.substr(end + 1);
  }
  return kept;
}

// Returns the three words of "What to log: debug, info or off". A word with an example of its
// number, such as ssp(3), is one, too; with a parameter, such as ssp(s), it is left out. Empty: no
// such list follows the colon.
std::vector<std::string> ChoicesInWords(absl::string_view meaning) {
  const size_t colon = meaning.rfind(": ");
  if (colon == absl::string_view::npos) return {};
  const std::string list = WithoutAsides(meaning.substr(colon + 2));
  if (!absl::StrContains(list, " or ") || !absl::StrContains(list, ", ")) return {};
  std::vector<std::string> choices;
  const std::string with_commas = absl::StrReplaceAll(list, {{" or ", ", "}});
  for (const absl::string_view word : absl::StrSplit(with_commas, ", ")) {
    const std::optional<absl::string_view> argument = ArgumentIn(word);
    if (!argument && !IsWord(word)) return {};
    if (!argument || IsNumber(*argument)) choices.emplace_back(word);
  }
  return choices;
}

// Returns text and json of "TEXT:{text,json}", and ring and none of
// "TEXT:{ring->RING,none->NONE}:{RING,NONE}", which translates.
std::vector<std::string> ChoicesOfCheck(absl::string_view type) {
  const size_t open = type.find('{');
  if (open == absl::string_view::npos) return {};
  const size_t close = type.find('}', open);
  if (close == absl::string_view::npos) return {};
  std::vector<std::string> choices;
  for (const absl::string_view choice :
       absl::StrSplit(type.substr(open + 1, close - open - 1), ',')) {
    choices.emplace_back(choice.substr(0, choice.find("->")));
  }
  return choices;
}

// Returns the range of "INT:INT in [0 - 64]".
std::string LimitsOf(absl::string_view type) {
  const size_t open = type.find(" in ["), close = type.rfind(']');
  if (open == absl::string_view::npos || close == absl::string_view::npos) return "";
  return absl::StrReplaceAll(type.substr(open + 5, close - open - 5), {{" - ", " to "}});
}

std::string ValueName(const std::string& type, const std::vector<std::string>& checked) {
  if (!checked.empty()) return absl::StrJoin(checked, "|");
  if (absl::StrContains(type, "SIZE")) return "SIZE";
  const std::string name = type.substr(0, type.find(':'));
  if (name == "INT" || name == "UINT") return "N";
  if (name == "FLOAT") return "X";
  return name.empty() ? "TEXT" : name;
}

// Returns where the first of `several` begins in lower-case words; npos: nowhere.
size_t FirstOf(absl::string_view words, const std::vector<absl::string_view>& several) {
  size_t first = absl::string_view::npos;
  for (const absl::string_view each : several) first = std::min(first, words.find(each));
  return first;
}

// Tells files and folders from other text by how meanings begin: "File with the keys", "Folder of
// the state".
ValueKind PlaceIn(const DescribedOption& option, absl::string_view type) {
  if (option.value == "N" || option.value == "X") return ValueKind::kOther;
  if (absl::StrContains(type, "DIR")) return ValueKind::kFolder;
  // Jobs of a cluster are arguments, never options.
  if (option.names.back() == "--job") return ValueKind::kFile;
  const std::string says = absl::AsciiStrToLower(option.meaning);
  const size_t file = FirstOf(says, {"file", "plugin"});
  const size_t folder = FirstOf(says, {"folder", "director"});
  if (file == folder) return ValueKind::kOther;  // neither is said
  return file < folder ? ValueKind::kFile : ValueKind::kFolder;
}

std::vector<std::string> NamesOf(const std::set<CLI::Option*>& options) {
  std::vector<std::string> names;
  for (const CLI::Option* option : options) {
    const std::string name = option->get_name();  // empty: it is hidden
    if (!name.empty()) names.push_back(name);
  }
  // The parser has them in the order of their addresses.
  std::sort(names.begin(), names.end());
  return names;
}

DescribedOption DescribeOption(const CLI::Option& option) {
  DescribedOption described;
  described.meaning = option.get_description();
  described.is_required = option.get_required();
  described.needs = NamesOf(option.get_needs());
  described.excludes = NamesOf(option.get_excludes());
  if (option.get_positional()) {
    described.names = {option.get_name(/*positional=*/true)};
  } else {
    for (const std::string& name : option.get_snames()) described.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) described.names.push_back("--" + name);
  }
  if (option.get_expected_min() == 0) return described;  // a flag
  const std::string type = option.get_type_name();
  const std::vector<std::string> checked = ChoicesOfCheck(type);
  described.value = ValueName(type, checked);
  described.limits = LimitsOf(type);
  described.default_value = option.get_default_str();
  described.choices = checked.empty() ? ChoicesInWords(described.meaning) : checked;
  described.kind = described.choices.empty() ? PlaceIn(described, type) : ValueKind::kChoice;
  described.is_repeatable =
      option.get_items_expected_max() >= CLI::detail::expected_max_vector_size;
  return described;
}

// Stands for all words that the parser leaves to a user's program.
DescribedOption ProgramArgument() {
  DescribedOption program;
  program.names = {"PROGRAM"};
  program.kind = ValueKind::kFile;
  program.value = "TEXT";
  program.meaning = "Program, and behind it what it is given";
  program.is_required = program.is_repeatable = true;
  return program;
}

// ---- help ----

constexpr size_t kHelpColumns = 100, kMeaningColumn = 26;

// Appends `text` in lines that begin at column `indent`; the first continues where `out` ends.
void AppendWrapped(absl::string_view text, size_t indent, std::string* out) {
  size_t column = out->size() - (out->rfind('\n') + 1);  // npos + 1 is 0
  bool is_first = true;
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (!is_first && column + 1 + word.size() > kHelpColumns) {
      absl::StrAppend(out, "\n", std::string(indent, ' '));
      column = indent;
    } else if (!is_first) {
      *out += ' ';
      ++column;
    }
    absl::StrAppend(out, word);
    column += word.size();
    is_first = false;
  }
  *out += '\n';
}

// A line or more: what is typed, and from kMeaningColumn on what it means.
void AppendEntry(const std::string& typed, absl::string_view meaning, std::string* out) {
  std::string line = "  " + typed;
  const bool is_long = line.size() + 2 > kMeaningColumn;
  absl::StrAppend(out, line, is_long ? "\n" : "",
                  std::string(kMeaningColumn - (is_long ? 0 : line.size()), ' '));
  AppendWrapped(meaning, kMeaningColumn, out);
}

// The option's meaning with its default, unless the meaning says it.
std::string MeaningWithDefault(const DescribedOption& option) {
  const bool says = absl::StrContains(option.meaning, "(default:");
  if (option.is_required) return absl::StrCat(option.meaning, " (required)");
  if (option.default_value.empty() || says) return option.meaning;
  return absl::StrCat(option.meaning, " (default: ", option.default_value, ")");
}

// Help that fits a terminal; in other modes the parser's own. Usage names the user's program, too.
class ShortHelp : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override {
    const std::string usage = Formatter::make_usage(app, std::move(name));
    if (!app->get_prefix_command()) return usage;
    return absl::StrCat(absl::StripSuffix(usage, "\n"), " PROGRAM [ARGS...]\n");
  }

  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    if (mode != CLI::AppFormatMode::Normal) return Formatter::make_help(app, name, mode);
    std::string out;
    for (const absl::string_view line : absl::StrSplit(app->get_description(), '\n')) {
      AppendWrapped(line, 0, &out);
    }
    absl::StrAppend(&out, make_usage(app, std::move(name)));
    AppendOptions(*app, &out);
    bool has_commands = false;
    for (const CLI::App* command : app->get_subcommands({})) {
      if (command->get_group().empty() || command->get_name().empty()) continue;
      absl::StrAppend(&out, has_commands ? "" : "\nCommands:\n");
      has_commands = true;
      AppendEntry(command->get_name(), command->get_description(), &out);
    }
    if (!app->get_footer().empty()) absl::StrAppend(&out, "\n", app->get_footer(), "\n");
    return out;
  }

 private:
  static void AppendOptions(const CLI::App& app, std::string* out);
};

DescribedCommand DescribeBelow(const CLI::App& app, std::vector<std::string> path) {
  DescribedCommand described;
  described.meaning = app.get_description();
  described.footer = app.get_footer();
  path.push_back(app.get_name());
  for (const CLI::Option* option :
       app.get_options([](const CLI::Option* each) { return !each->get_group().empty(); })) {
    auto& group = option->get_positional() ? described.arguments : described.options;
    group.push_back(DescribeOption(*option));
  }
  if (app.get_prefix_command()) described.arguments.push_back(ProgramArgument());
  for (const CLI::App* command : app.get_subcommands([](const CLI::App* each) {
         return !each->get_group().empty() && !each->get_name().empty();
       })) {
    described.commands.push_back(DescribeBelow(*command, path));
  }
  described.path = std::move(path);
  return described;
}

void ShortHelp::AppendOptions(const CLI::App& app, std::string* out) {
  std::string arguments, options;
  std::vector<std::string> more;
  if (app.get_prefix_command()) {
    const DescribedOption program = ProgramArgument();
    AppendEntry(program.names.front(), program.meaning, &arguments);
  }
  for (const CLI::Option* option :
       app.get_options([](const CLI::Option* each) { return !each->get_group().empty(); })) {
    const DescribedOption described = DescribeOption(*option);
    if (option == app.get_help_all_ptr()) continue;
    if (option->get_group() == kMoreOptions) {
      more.push_back(described.names.back());
      continue;
    }
    std::string typed = absl::StrJoin(described.names, ", ");
    if (option->get_positional()) {
      AppendEntry(absl::AsciiStrToUpper(typed), described.meaning, &arguments);
      continue;
    }
    if (!described.value.empty()) absl::StrAppend(&typed, " ", described.value);
    AppendEntry(typed, MeaningWithDefault(described), &options);
  }
  if (!arguments.empty()) absl::StrAppend(out, "\nArguments:\n", arguments);
  if (!options.empty()) absl::StrAppend(out, "\nOptions:\n", options);
  if (more.empty()) return;
  std::sort(more.begin(), more.end());
  *out += "  ";
  AppendWrapped(absl::StrCat("--help-all has more: ", absl::StrJoin(more, ", ")), 4, out);
}

}  // namespace

void UseShortHelp(CLI::App* app) { app->formatter(std::make_shared<ShortHelp>()); }

DescribedCommand Describe(const CLI::App& app) { return DescribeBelow(app, {}); }

std::string FullName(const DescribedCommand& command) { return absl::StrJoin(command.path, " "); }

}  // namespace strata::cli
