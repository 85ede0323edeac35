#include "cli/describe/command_tree.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "cli/describe/made_tree.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::cli {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

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

// What an option with this meaning offers.
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

TEST(CommandTree, ChoicesAreElseThoseThatTheMeaningLists) {
  EXPECT_THAT(OptionOf(Submit(), "--mode").choices, ElementsAre("sync", "lazy", "async"));
  EXPECT_THAT(Offers("What to log: debug, info or off"), ElementsAre("debug", "info", "off"));
  EXPECT_THAT(Offers("Joins: servers (the default), ring or none"),
              ElementsAre("servers", "ring", "none"));
}

TEST(CommandTree, AMeaningThatListsNoWordsGivesNoChoices) {
  EXPECT_THAT(Offers("What ranks print: all, none, or a file for that of all"), IsEmpty());
  EXPECT_THAT(Offers("HOST:PORT to listen on, 0.0.0.0: all interfaces, port 0: a free one"),
              IsEmpty());
  EXPECT_THAT(Offers("Seconds, minutes or hours"), IsEmpty());
  EXPECT_THAT(Offers("Change a field: path=value"), IsEmpty());
  EXPECT_THAT(Offers(""), IsEmpty());
}

}  // namespace
}  // namespace strata::cli
