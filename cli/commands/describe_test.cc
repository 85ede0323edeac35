#include <sys/wait.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/commands/command_tree.h"
#include "cli/options/job_options.h"
#include "cli/options/options.h"
#include "common/job/consistency.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::cli {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;
using testing::UnorderedElementsAre;

// A small program `tool`, with options of all kinds.
class MadeTree {
 public:
  MadeTree() {
    app_.name("tool");
    app_.set_help_flag("-h,--help", "Print this help and exit");
    CLI::App* submit = app_.add_subcommand("submit", "Submit a job's file: [now]");
    submit->add_option("job", text_, "Job file")->required();
    submit->add_option("--mode", text_, "How: sync, lazy, ssp(s), local(16) or async");
    submit->add_option("--format", text_, "Form of the log")
        ->check(CLI::IsMember({"text", "json"}));
    CLI::Option* ranks = submit->add_option("-n,--ranks", number_, "Processes")
                             ->check(CLI::Range(1, 64))
                             ->capture_default_str();
    submit->add_flag("--follow", flag_, "It's shown, C:\\ too")->needs(ranks);
    submit->add_option("--set", texts_, "Change a field");
    submit->add_option("--state", text_, "Folder of the state")->excludes(ranks);
    submit->add_option("--secret", text_, "Not for people")->group("");
    submit->footer(
        "Some words.\n.in the way\nExamples:\n  tool submit a\\b.txt\nExit status: 0 well, 7 ill.");
    app_.add_subcommand("status", "Show it");
    CLI::App* checkpoint = app_.add_subcommand("checkpoint", "Saved weights");
    checkpoint->add_subcommand("list", "List them");
    checkpoint->add_subcommand("verify", "Read them");
    app_.add_subcommand("internal", "Not for people")->group("");
  }

  const CLI::App& app() const { return app_; }

 private:
  CLI::App app_{"A tool"};
  std::string text_;
  std::vector<std::string> texts_;
  int number_ = 2;
  bool flag_ = false;
};

std::vector<std::string> Names(const std::vector<DescribedCommand>& commands) {
  std::vector<std::string> names;
  for (const DescribedCommand& command : commands) names.push_back(FullName(command));
  return names;
}

DescribedCommand Submit() { return Describe(MadeTree().app()).commands.front(); }

DescribedOption OptionOf(const DescribedCommand& command, const std::string& name) {
  for (const DescribedOption& option : command.options) {
    if (std::find(option.names.begin(), option.names.end(), name) != option.names.end()) {
      return option;
    }
  }
  return {};
}

// Returns the choices of an option with this meaning.
std::vector<std::string> Offers(const std::string& meaning) {
  CLI::App app("tool");
  std::string text;
  app.add_option("--it", text, meaning);
  return OptionOf(Describe(app), "--it").choices;
}

TEST(CommandTree, HasCommandsOfAllDepthsAndNoneThatHelpHides) {
  const DescribedCommand root = Describe(MadeTree().app());
  EXPECT_THAT(Names(root.commands), ElementsAre("tool submit", "tool status", "tool checkpoint"));
  EXPECT_THAT(Names(root.commands[2].commands),
              ElementsAre("tool checkpoint list", "tool checkpoint verify"));
}

TEST(CommandTree, HasOptionsWithAllTheirNamesAndNoneThatHelpHides) {
  std::vector<std::vector<std::string>> names;
  for (const DescribedOption& option : Submit().options) names.push_back(option.names);
  EXPECT_THAT(names,
              ElementsAre(ElementsAre("-h", "--help"), ElementsAre("--mode"),
                          ElementsAre("--format"), ElementsAre("-n", "--ranks"),
                          ElementsAre("--follow"), ElementsAre("--set"), ElementsAre("--state")));
}

TEST(CommandTree, AnArgumentIsNoOption) {
  const DescribedCommand submit = Submit();
  ASSERT_EQ(submit.arguments.size(), 1u);
  EXPECT_THAT(submit.arguments[0].names, ElementsAre("job"));
  EXPECT_EQ(submit.arguments[0].kind, ValueKind::kFile);
  EXPECT_TRUE(submit.arguments[0].is_required);
}

TEST(CommandTree, SaysWhatAnOptionTakes) {
  const DescribedCommand submit = Submit();
  EXPECT_EQ(OptionOf(submit, "--follow").kind, ValueKind::kNone);
  EXPECT_EQ(OptionOf(submit, "--follow").value, "");
  EXPECT_EQ(OptionOf(submit, "--state").kind, ValueKind::kFolder);
  const DescribedOption ranks = OptionOf(submit, "--ranks");
  EXPECT_EQ(ranks.kind, ValueKind::kOther);
  EXPECT_EQ(ranks.value, "N");
  EXPECT_EQ(ranks.limits, "1 to 64");
  EXPECT_EQ(ranks.default_value, "2");
  EXPECT_THAT(ranks.excludes, ElementsAre("--state"));
  EXPECT_THAT(OptionOf(submit, "--follow").needs, ElementsAre("--ranks"));
  EXPECT_TRUE(OptionOf(submit, "--set").is_repeatable);
  EXPECT_FALSE(OptionOf(submit, "--mode").is_repeatable);
}

TEST(CommandTree, ChoicesAreThoseOfTheCheck) {
  const DescribedOption format = OptionOf(Submit(), "--format");
  EXPECT_EQ(format.kind, ValueKind::kChoice);
  EXPECT_THAT(format.choices, ElementsAre("text", "json"));
  EXPECT_EQ(format.value, "text|json");
}

TEST(CommandTree, ChoicesOfACheckThatTranslatesAreWhatOneMayWrite) {
  CLI::App app("tool");
  int exchange = 0;
  const std::map<std::string, int> values = {{"ring", 1}, {"none", 2}};
  app.add_option("--exchange", exchange, "")
      ->transform(CLI::CheckedTransformer(values, CLI::ignore_case));
  const DescribedOption described = OptionOf(Describe(app), "--exchange");
  EXPECT_THAT(described.choices, testing::UnorderedElementsAre("ring", "none"));
}

TEST(CommandTree, AValueIsAFileOrAFolderByWhichItsMeaningNamesFirst) {
  CLI::App app("tool");
  std::string text;
  int number = 0;
  app.add_option("--keys", text, "File with keys (default: those in the state's folder)");
  app.add_option("--state", text, "Folder with the file of the state");
  app.add_option("--job", text, "Job to run");
  app.add_option("--lines", number, "Lines of a file");
  const DescribedCommand tool = Describe(app);
  EXPECT_EQ(OptionOf(tool, "--keys").kind, ValueKind::kFile);
  EXPECT_EQ(OptionOf(tool, "--state").kind, ValueKind::kFolder);
  EXPECT_EQ(OptionOf(tool, "--job").kind, ValueKind::kFile);
  EXPECT_EQ(OptionOf(tool, "--lines").kind, ValueKind::kOther);
}

TEST(CommandTree, WhatFollowsIsTheUsersProgramWhereTheParserLeavesItAlone) {
  CLI::App app("tool");
  app.prefix_command();
  const DescribedCommand tool = Describe(app);
  ASSERT_EQ(tool.arguments.size(), 1u);
  EXPECT_THAT(tool.arguments[0].names, ElementsAre("PROGRAM"));
  EXPECT_EQ(tool.arguments[0].kind, ValueKind::kFile);
}

TEST(CommandTree, UsageHasTheUsersProgramWhereTheParserLeavesItAlone) {
  CLI::App app("Run it", "tool");
  UseShortHelp(&app);
  EXPECT_THAT(app.help(), HasSubstr("Usage: tool [OPTIONS]\n"));
  app.prefix_command();
  for (const CLI::AppFormatMode mode : {CLI::AppFormatMode::Normal, CLI::AppFormatMode::All}) {
    EXPECT_THAT(app.help("", mode), HasSubstr("Usage: tool [OPTIONS] PROGRAM [ARGS...]\n"));
  }
  EXPECT_THAT(app.help(), HasSubstr("\nArguments:\n  PROGRAM "));
}

TEST(CommandTree, ChoicesAreElseThoseThatTheMeaningLists) {
  EXPECT_THAT(OptionOf(Submit(), "--mode").choices,
              ElementsAre("sync", "lazy", "local(16)", "async"));
  EXPECT_THAT(Offers("What to log: debug, info or off"), ElementsAre("debug", "info", "off"));
  EXPECT_THAT(Offers("Joins: servers (the default), ring or none"),
              ElementsAre("servers", "ring", "none"));
}

TEST(CommandTree, AMeaningThatListsNoWordsGivesNoChoices) {
  EXPECT_THAT(Offers("What ranks print: all, none, or a file for that of all"), IsEmpty());
  EXPECT_THAT(Offers("HOST:PORT to listen on, 0.0.0.0: all interfaces, port 0: a free one"),
              IsEmpty());
  EXPECT_THAT(Offers("Seconds, minutes or hours"), IsEmpty());
  EXPECT_THAT(Offers("How: sync, ssp(2 or 3), or async"), IsEmpty());
  EXPECT_THAT(Offers("Change a field: path=value"), IsEmpty());
  EXPECT_THAT(Offers(""), IsEmpty());
}

TEST(CommandTree, AllModesAreOfferedWithAnExampleOfTheirNumber) {
  CLI::App app("tool");
  JobOptions options;
  AddJobOptions(&app, &options);
  const std::vector<std::string> modes = OptionOf(Describe(app), "--mode").choices;
  EXPECT_THAT(modes, ElementsAre("sync", "lazy", "async", "ring", "delay1", "ssp(3)", "local(16)",
                                 "diloco(16)", "quorum(3)", "async_damped", "async_dc", "easgd",
                                 "significance"));
  for (const std::string& mode : modes) EXPECT_TRUE(SettingsOfMode(mode).ok()) << mode;
}

struct Ran {
  int exit_status = -1;
  std::string out;  // with what it wrote to stderr
};

Ran RunShell(const std::string& command) {
  Ran ran;
  std::FILE* out = popen(absl::StrCat(command, " 2>&1").c_str(), "r");
  if (out == nullptr) return ran;
  for (int c = std::fgetc(out); c != EOF; c = std::fgetc(out)) ran.out += static_cast<char>(c);
  const int status = pclose(out);
  ran.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ran;
}

class Completion : public testing::Test {
 protected:
  // A folder with a file and a folder in it, and the script.
  void SetUp() override {
    dir_ = absl::StrCat(testing::TempDir(), "/completion-",
                        testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directories(dir_ + "/here/a folder");
    Write("here/a job.txt", "");
  }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(absl::StrCat(dir_, "/", name)) << text;
  }

  // Returns bash's offers for the last of `words`; bash has split words at "=".
  std::vector<std::string> Bash(const std::vector<std::string>& words) {
    Write("tool.bash", BashCompletion(Describe(MadeTree().app())));
    std::string array;
    for (const std::string& word : words) absl::StrAppend(&array, " '", word, "'");
    Write("ask.bash", absl::StrCat("source ../tool.bash\nCOMP_WORDS=(tool", array, ")\n",
                                   "COMP_CWORD=", words.size(), "\n",
                                   "_tool tool \"${COMP_WORDS[COMP_CWORD]}\" "
                                   "\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
                                   "printf '%s\\n' \"${COMPREPLY[@]}\"\n"));
    const Ran ran = RunShell(absl::StrCat("cd '", dir_, "/here' && bash -u ../ask.bash"));
    EXPECT_EQ(ran.exit_status, 0) << ran.out;
    return absl::StrSplit(ran.out, '\n', absl::SkipEmpty());
  }

  std::string dir_;
};

TEST_F(Completion, BashOffersCommandsByTheirBeginning) {
  EXPECT_THAT(Bash({"st"}), ElementsAre("status"));
  EXPECT_THAT(Bash({""}),
              AllOf(IsSupersetOf({"submit", "status", "checkpoint"}), Not(Contains("internal"))));
  EXPECT_THAT(Bash({"checkpoint", ""}),
              AllOf(IsSupersetOf({"list", "verify"}), Not(Contains("submit"))));
}

TEST_F(Completion, BashOffersTheOptionsOfTheCommandAlone) {
  EXPECT_THAT(Bash({"submit", "--"}), ElementsAre("--help", "--mode", "--format", "--ranks",
                                                  "--follow", "--set", "--state"));
  EXPECT_THAT(Bash({"checkpoint", "list", "--"}), ElementsAre("--help"));
}

TEST_F(Completion, BashOffersChoicesAlsoBehindAnEqualsSign) {
  const auto all = ElementsAre("sync", "lazy", "local\\(16\\)", "async");
  EXPECT_THAT(Bash({"submit", "--mode", ""}), all);
  EXPECT_THAT(Bash({"submit", "--mode", "="}), all);
  EXPECT_THAT(Bash({"submit", "--mode", "=", "s"}), ElementsAre("sync"));
}

TEST_F(Completion, BashEscapesWhatAShellWouldTakeUnlessAQuoteIsOpen) {
  EXPECT_THAT(Bash({"submit", "--mode", "lo"}), ElementsAre("local\\(16\\)"));
  EXPECT_THAT(Bash({"submit", "--mode", "local\\("}), ElementsAre("local\\(16\\)"));
  EXPECT_THAT(Bash({"submit", "--mode", "\"lo"}), ElementsAre("local(16)"));
  EXPECT_THAT(Bash({"submit", "--mode", "=", "\"lo"}), ElementsAre("local(16)"));
}

TEST_F(Completion, BashOffersFilesAndFoldersWhereAValueIsOne) {
  EXPECT_THAT(Bash({"submit", "a"}), UnorderedElementsAre("a folder", "a job.txt"));
  EXPECT_THAT(Bash({"submit", "--state", ""}), ElementsAre("a folder"));
  EXPECT_THAT(Bash({"submit", "--set", ""}), IsEmpty());
}

TEST_F(Completion, BashTakesNoValueForACommand) {
  EXPECT_THAT(Bash({"submit", "--set", "status", "--m"}), ElementsAre("--mode"));
  EXPECT_THAT(Bash({"submit", "--follow", "--m"}), ElementsAre("--mode"));
}

std::map<std::string, std::string> Pages() {
  return ManPages(Describe(MadeTree().app()), "tool 1.0");
}

bool IsInstalled(const std::string& program) {
  return RunShell("command -v " + program).exit_status == 0;
}

// The pages as files; returns their folder.
std::string Written() {
  const std::string dir = absl::StrCat(
      testing::TempDir(), "/man-", testing::UnitTest::GetInstance()->current_test_info()->name());
  std::filesystem::remove_all(dir);
  std::filesystem::create_directories(dir);
  for (const auto& [name, page] : Pages()) std::ofstream(absl::StrCat(dir, "/", name)) << page;
  return dir;
}

TEST(ManPages, EachCommandThatHelpShowsHasOne) {
  std::vector<std::string> names;
  for (const auto& [name, page] : Pages()) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("tool-checkpoint-list.1", "tool-checkpoint-verify.1",
                                 "tool-checkpoint.1", "tool-status.1", "tool-submit.1", "tool.1"));
}

TEST(ManPages, HaveTheUsualSectionsInTheirOrder) {
  std::vector<std::string> sections;
  for (const absl::string_view line : absl::StrSplit(Pages()["tool-submit.1"], '\n')) {
    if (absl::StartsWith(line, ".SH ")) sections.emplace_back(line.substr(4));
  }
  EXPECT_THAT(sections, ElementsAre("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES",
                                    "EXIT STATUS", "SEE ALSO"));
  EXPECT_THAT(Pages()["tool-checkpoint.1"], HasSubstr(".SH COMMANDS\n"));
}

TEST(ManPages, AnOptionHasItsLimitsItsDefaultAndWhatItGoesWith) {
  EXPECT_THAT(Pages()["tool-submit.1"],
              HasSubstr(".TP\n\\fB\\-n\\fR, \\fB\\-\\-ranks\\fR \\fIN\\fR\nProcesses.\nFrom 1 to "
                        "64.\nDefault: 2.\nNot with \\-\\-state.\n"));
  EXPECT_THAT(Pages()["tool-submit.1"], Not(HasSubstr("secret")));
}

TEST(ManPages, TextIsNeverARequestNorAnEscape) {
  const std::string page = Pages()["tool-submit.1"];
  EXPECT_THAT(page, HasSubstr("\n\\&.in the way\n"));
  EXPECT_THAT(page, HasSubstr("\nIt\\(aqs shown, C:\\e too.\n"));
  EXPECT_THAT(page, HasSubstr(".EX\ntool submit a\\eb.txt\n.EE\n"));
}

TEST(ManPages, TextBehindTheExamplesBelongsToTheDescription) {
  CLI::App app("Do it");
  app.name("tool");
  app.footer("Example:\n  tool\nIt is slow.");
  const std::string page = ManPages(Describe(app), "tool 1.0")["tool.1"];
  EXPECT_THAT(page, HasSubstr(".SH DESCRIPTION\nDo it.\n.PP\nIt is slow.\n.SH OPTIONS\n"));
  EXPECT_THAT(page, HasSubstr(".SH EXAMPLES\n.EX\ntool\n.EE\n.SH EXIT STATUS\n"));
}

TEST(ManPages, SayTheVersionAndNoDate) {
  for (const auto& [name, page] : Pages()) {
    EXPECT_THAT(page.substr(0, page.find('\n')), testing::EndsWith(" 1 \"\" \"tool 1.0\"")) << name;
  }
  EXPECT_EQ(Pages(), Pages());
}

TEST(ManPages, GroffHasNothingToSay) {
  if (!IsInstalled("groff")) GTEST_SKIP() << "groff is not installed";
  EXPECT_EQ(RunShell(absl::StrCat("cd ", Written(), " && groff -man -z -ww *.1")).out, "");
}

TEST(ManPages, MandocMissesADateAndNothingElse) {
  if (!IsInstalled("mandoc")) GTEST_SKIP() << "mandoc is not installed";
  EXPECT_EQ(RunShell(absl::StrCat("cd ", Written(),
                                  " && mandoc -T lint *.1 | grep -v 'WARNING: missing date'"))
                .out,
            "");
}

TEST(ManPages, AReaderSeesTheTextAsItWasWritten) {
  if (!IsInstalled("groff")) GTEST_SKIP() << "groff is not installed";
  const std::string shown = RunShell(absl::StrCat("cd ", Written(),
                                                  " && groff -man -Tascii -P-c -P-b -P-u -rLL=80n "
                                                  "tool-submit.1"))
                                .out;
  EXPECT_THAT(shown, HasSubstr("  -n, --ranks N\n"));
  EXPECT_THAT(shown, HasSubstr("  It's shown, C:\\ too.  Needs --ranks.\n"));
  EXPECT_THAT(shown, HasSubstr("  tool submit a\\b.txt\n"));
}

}  // namespace
}  // namespace strata::cli
