#include "cli/describe/completion.h"

#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
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

// Each match that zsh finds goes to the file $OUT, as it would be put into the line.
constexpr char kZshInner[] = R"zsh(PROMPT= RPROMPT=
fpath=($PWD/.. $fpath)
autoload -U compinit
compinit -u -D
compadd() {
  # Those that only fill an array offer nothing.
  if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then
    builtin compadd "$@"
    return
  fi
  local -a hits
  builtin compadd -A hits "$@"
  (( $#hits )) && print -rl -- $hits >> $OUT
  builtin compadd "$@"
}
finish() {
  print -r -- -end- >> $OUT
  BUFFER=
}
zle -N finish
bindkey -e
bindkey '^I' complete-word '^X' finish
)zsh";

// Types each line and the key that completes it, on a terminal, for at most 20 s.
constexpr char kZshAsk[] = R"zsh(zmodload zsh/zpty
export OUT=$PWD/../offered
: > $OUT
zpty pty "zsh -f -i"
zpty -w pty "source ../inner.zsh"
integer line i
for ((line = 1; line <= $#; line++)); do
  zpty -w -n pty "$argv[line]"$'\t\x18'
  for ((i = 0; i < 400; i++)); do
    (($(grep -cx -e -end- $OUT) >= line)) && break
    zpty -r -t pty text
    sleep 0.05
  done
done
zpty -d pty
cat $OUT
)zsh";

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

  // What zsh's own completion offers at the end of each line, without what it offers twice.
  std::vector<std::set<std::string>> Zsh(const std::vector<std::string>& lines) {
    Write("_tool", ZshCompletion(Describe(MadeTree().app())));
    Write("inner.zsh", kZshInner);
    Write("ask.zsh", kZshAsk);
    std::string words;
    for (const std::string& line : lines) absl::StrAppend(&words, " '", line, "'");
    const Ran ran = RunShell(absl::StrCat("cd '", dir_, "/here' && HOME='", dir_,
                                          "' TERM=xterm zsh -f ../ask.zsh", words));
    EXPECT_EQ(ran.exit_status, 0) << ran.out;
    std::vector<std::set<std::string>> offered(1);
    for (const absl::string_view each : absl::StrSplit(ran.out, '\n', absl::SkipEmpty())) {
      if (each == "-end-") {
        offered.emplace_back();
      } else {
        offered.back().emplace(each);
      }
    }
    EXPECT_EQ(offered.size(), lines.size() + 1) << ran.out;
    offered.resize(lines.size());
    return offered;
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

TEST_F(Completion, ZshOffersCommandsOptionsAndValues) {
  if (!IsInstalled("zsh")) GTEST_SKIP() << "zsh is not installed";
  EXPECT_THAT(
      Zsh({"tool st", "tool checkpoint ", "tool submit --mode ", "tool submit --mode=s",
           "tool submit -n 2 --fo", "tool submit a", "tool submit --state ",
           "tool checkpoint list "}),
      ElementsAre(ElementsAre("status"), ElementsAre("list", "verify"),
                  ElementsAre("async", "lazy", "sync"), ElementsAre("sync"),
                  ElementsAre("--follow", "--format"), ElementsAre("a\\ folder", "a\\ job.txt"),
                  ElementsAre("a\\ folder"), ElementsAre("--help", "-h")));
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
