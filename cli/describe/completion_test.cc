#include "cli/describe/completion.h"

#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/describe/made_tree.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::cli {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;
using testing::UnorderedElementsAre;

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

bool IsInstalled(const std::string& program) {
  return RunShell("command -v " + program).exit_status == 0;
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

  // What bash offers for the last of `words`, of which bash has split those with a "=".
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

  // What fish offers at the end of a line.
  std::vector<std::string> Fish(const std::string& line) {
    Write("tool.fish", FishCompletion(Describe(MadeTree().app())));
    Write("ask.fish", absl::StrCat("source ../tool.fish\ncomplete -C '", line, "'\n"));
    const Ran ran = RunShell(
        absl::StrCat("cd '", dir_, "/here' && HOME='", dir_, "' fish --no-config ../ask.fish"));
    EXPECT_EQ(ran.exit_status, 0) << ran.out;
    std::vector<std::string> offered;
    for (const absl::string_view each : absl::StrSplit(ran.out, '\n', absl::SkipEmpty())) {
      offered.emplace_back(each.substr(0, each.find('\t')));
    }
    return offered;
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
  EXPECT_THAT(Bash({"submit", "--mode", ""}), ElementsAre("sync", "lazy", "async"));
  EXPECT_THAT(Bash({"submit", "--mode", "="}), ElementsAre("sync", "lazy", "async"));
  EXPECT_THAT(Bash({"submit", "--mode", "=", "s"}), ElementsAre("sync"));
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

TEST_F(Completion, ZshReadsTheScript) {
  if (!IsInstalled("zsh")) GTEST_SKIP() << "zsh is not installed";
  Write("_tool", ZshCompletion(Describe(MadeTree().app())));
  const Ran ran = RunShell(absl::StrCat("zsh -n '", dir_, "/_tool'"));
  EXPECT_EQ(ran.exit_status, 0) << ran.out;
  EXPECT_EQ(ran.out, "");
}

TEST_F(Completion, FishOffersCommandsOptionsAndValues) {
  if (!IsInstalled("fish")) GTEST_SKIP() << "fish is not installed";
  EXPECT_THAT(Fish("tool st"), ElementsAre("status"));
  EXPECT_THAT(Fish("tool checkpoint "), ElementsAre("list", "verify"));
  EXPECT_THAT(Fish("tool submit --mode "), UnorderedElementsAre("sync", "lazy", "async"));
  EXPECT_THAT(Fish("tool submit --fo"), UnorderedElementsAre("--format", "--follow"));
  EXPECT_THAT(Fish("tool submit a"), Contains("a job.txt"));
  EXPECT_THAT(Fish("tool checkpoint list "), IsEmpty());
}

}  // namespace
}  // namespace strata::cli
