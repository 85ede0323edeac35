#include "cli/describe/man_pages.h"

#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/describe/made_tree.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::map<std::string, std::string> Pages() {
  return ManPages(Describe(MadeTree().app()), "tool 1.0");
}

// What a shell command writes, with its errors.
std::string Said(const std::string& command) {
  std::string said;
  std::FILE* out = popen(absl::StrCat(command, " 2>&1").c_str(), "r");
  if (out == nullptr) return "cannot run it";
  for (int c = std::fgetc(out); c != EOF; c = std::fgetc(out)) said += static_cast<char>(c);
  pclose(out);
  return said;
}

bool IsInstalled(const std::string& program) { return !Said("command -v " + program).empty(); }

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
  EXPECT_EQ(Said(absl::StrCat("cd ", Written(), " && groff -man -z -ww *.1")), "");
}

TEST(ManPages, MandocMissesADateAndNothingElse) {
  if (!IsInstalled("mandoc")) GTEST_SKIP() << "mandoc is not installed";
  EXPECT_EQ(Said(absl::StrCat("cd ", Written(),
                              " && mandoc -T lint *.1 | grep -v 'WARNING: missing date'")),
            "");
}

TEST(ManPages, AReaderSeesTheTextAsItWasWritten) {
  if (!IsInstalled("groff")) GTEST_SKIP() << "groff is not installed";
  const std::string shown = Said(absl::StrCat("cd ", Written(),
                                              " && groff -man -Tascii -P-c -P-b -P-u -rLL=80n "
                                              "tool-submit.1"));
  EXPECT_THAT(shown, HasSubstr("  -n, --ranks N\n"));
  EXPECT_THAT(shown, HasSubstr("  It's shown, C:\\ too.  Needs --ranks.\n"));
  EXPECT_THAT(shown, HasSubstr("  tool submit a\\b.txt\n"));
}

}  // namespace
}  // namespace strata::cli
