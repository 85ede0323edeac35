#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "cli/commands/command_tree.h"

namespace strata::cli {
namespace {

// Characters that the language, or a terminal's font of it, would change.
std::string Escape(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"\\", "\\e"},
                                    {"-", "\\-"},
                                    {"'", "\\(aq"},
                                    {"`", "\\(ga"},
                                    {"^", "\\(ha"},
                                    {"~", "\\(ti"}});
}

// A whole line of text: one that begins with a dot would be a request.
std::string TextLine(absl::string_view text) {
  const std::string escaped = Escape(text);
  return absl::StrCat(absl::StartsWith(escaped, ".") ? "\\&" : "", escaped, "\n");
}

std::string Bold(absl::string_view text) { return absl::StrCat("\\fB", Escape(text), "\\fR"); }
std::string Italic(absl::string_view text) { return absl::StrCat("\\fI", Escape(text), "\\fR"); }

std::string PageName(const std::vector<std::string>& path) { return absl::StrJoin(path, "-"); }

// Meanings have no full stop.
std::string Sentence(std::string text) {
  if (!text.empty() && !absl::EndsWith(text, ".")) text += ".";
  return text;
}

std::string OptionEntry(const DescribedOption& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.names) {
    names.push_back(absl::StartsWith(name, "-") ? Bold(name) : Italic(name));
  }
  const bool is_argument = !absl::StartsWith(option.names.front(), "-");
  std::string value;
  if (!option.value.empty() && !is_argument) value = absl::StrCat(" ", Italic(option.value));
  std::string entry = absl::StrCat(".TP\n", absl::StrJoin(names, ", "), value, "\n");
  std::vector<std::string> sentences = {Sentence(option.meaning)};
  const auto add = [&sentences](absl::string_view what, const std::string& which) {
    if (!which.empty()) sentences.push_back(absl::StrCat(what, " ", which, "."));
  };
  add("From", option.limits);
  add("Default:", option.default_value);
  add("Needs", absl::StrJoin(option.needs, ", "));
  add("Not with", absl::StrJoin(option.excludes, ", "));
  if (option.is_repeatable && !is_argument && !absl::StrContains(option.meaning, "repeated")) {
    sentences.push_back("May be given several times.");
  }
  if (option.is_required && !is_argument) sentences.push_back("Required.");
  for (const std::string& sentence : sentences) entry += TextLine(sentence);
  return entry;
}

// The footer of a command's help, by the page's sections.
struct Footer {
  std::string description, examples, exit_status;
};

Footer Sections(const std::string& footer) {
  Footer sections;
  std::string* section = &sections.description;
  bool is_code = false;
  for (const absl::string_view line : absl::StrSplit(footer, '\n')) {
    const bool is_example_title = line == "Examples:" || line == "Example:";
    const bool is_indented = absl::StartsWith(line, "  ");
    // Text after the examples, too, belongs to what came before them.
    const bool begins_text = is_code && !is_indented;
    if (begins_text) absl::StrAppend(section, ".EE\n");
    if (begins_text && section == &sections.examples) section = &sections.description;
    if (is_example_title) section = &sections.examples;
    if (absl::StartsWith(line, "Exit status")) section = &sections.exit_status;
    const bool goes_on = section == &sections.description && !section->empty();
    if (begins_text && goes_on) absl::StrAppend(section, ".PP\n");
    if (is_indented && !is_code) {
      absl::StrAppend(section, section->empty() ? "" : ".PP\n", ".EX\n");
    }
    is_code = is_indented;
    if (is_example_title || line.empty()) continue;
    absl::StrAppend(section, TextLine(is_indented ? line.substr(2) : line));
  }
  if (is_code) absl::StrAppend(section, ".EE\n");
  return sections;
}

std::string Synopsis(const DescribedCommand& command) {
  std::string line = Bold(FullName(command));
  if (!command.options.empty()) absl::StrAppend(&line, " [", Italic("OPTIONS"), "]");
  for (const DescribedOption& argument : command.arguments) {
    const std::string text =
        absl::StrCat(Italic(argument.names.front()), argument.is_repeatable ? " ..." : "");
    absl::StrAppend(&line, " ", argument.is_required ? text : absl::StrCat("[", text, "]"));
  }
  if (!command.commands.empty()) absl::StrAppend(&line, " ", Italic("COMMAND"));
  return line + "\n";
}

// Without full stops and line breaks: what NAME shows, and lists of pages.
std::string OneLine(const DescribedCommand& command) {
  const std::vector<std::string> lines = absl::StrSplit(command.meaning, '\n');
  return std::string(absl::StripSuffix(lines.front(), "."));
}

std::string Commands(const DescribedCommand& command) {
  std::string text;
  for (const DescribedCommand& below : command.commands) {
    absl::StrAppend(&text, ".TP\n", Bold(PageName(below.path)), "(1)\n",
                    TextLine(Sentence(OneLine(below))));
  }
  return text;
}

std::string Section(absl::string_view title, const std::string& text) {
  return text.empty() ? "" : absl::StrCat(".SH ", title, "\n", text);
}

std::string ExitStatus(const std::string& of_command) {
  constexpr char kUsual[] =
      ".TP\n0\nIt is done.\n.TP\n1\nIt failed, or was stopped.\n.TP\n2\nThe command line or "
      "another "
      "input is wrong; nothing was done.\n";
  return of_command.empty() ? kUsual : absl::StrCat(of_command, kUsual);
}

std::string SeeAlso(const DescribedCommand& command) {
  std::vector<std::string> pages;
  std::vector<std::string> above = command.path;
  above.pop_back();
  if (!above.empty()) pages.push_back(absl::StrCat(Bold(PageName(above)), "(1)"));
  for (const DescribedCommand& below : command.commands) {
    pages.push_back(absl::StrCat(Bold(PageName(below.path)), "(1)"));
  }
  return pages.empty() ? "" : absl::StrCat(absl::StrJoin(pages, ",\n"), "\n");
}

std::string ManPage(const DescribedCommand& command, const std::string& version) {
  const Footer footer = Sections(command.footer);
  std::string description;
  const bool is_sentence = !absl::StrContains(command.meaning, '\n');  // else with a command to try
  const std::string meaning = is_sentence ? Sentence(command.meaning) : command.meaning;
  for (const absl::string_view line : absl::StrSplit(meaning, '\n')) {
    absl::StrAppend(&description, description.empty() ? "" : ".PP\n", TextLine(line));
  }
  if (!footer.description.empty()) {
    absl::StrAppend(&description, ".PP\n", footer.description);
  }
  std::string options;
  for (const DescribedOption& argument : command.arguments) options += OptionEntry(argument);
  for (const DescribedOption& option : command.options) options += OptionEntry(option);
  // The third field is a date, which is left empty. Words stay whole, so that options and paths can
  // be copied.
  return absl::StrCat(".TH ", Escape(absl::AsciiStrToUpper(PageName(command.path))), " 1 \"\" \"",
                      Escape(version), "\"\n.nh\n.ad l\n",
                      Section("NAME", absl::StrCat(Escape(PageName(command.path)), " \\- ",
                                                   Escape(OneLine(command)), "\n")),
                      Section("SYNOPSIS", Synopsis(command)), Section("DESCRIPTION", description),
                      Section("COMMANDS", Commands(command)), Section("OPTIONS", options),
                      Section("EXAMPLES", footer.examples),
                      Section("EXIT STATUS", ExitStatus(footer.exit_status)),
                      Section("SEE ALSO", SeeAlso(command)));
}

void AddPages(const DescribedCommand& command, const std::string& version,
              std::map<std::string, std::string>* pages) {
  (*pages)[PageName(command.path) + ".1"] = ManPage(command, version);
  for (const DescribedCommand& below : command.commands) AddPages(below, version, pages);
}

}  // namespace

std::map<std::string, std::string> ManPages(const DescribedCommand& root,
                                            const std::string& version) {
  std::map<std::string, std::string> pages;
  AddPages(root, version, &pages);
  return pages;
}

}  // namespace strata::cli
