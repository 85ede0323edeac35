#include "cli/web/log_json.h"

#include "gtest/gtest.h"

namespace strata::cli {
namespace {

TEST(LogJson, AChoiceIsReadAsThePageWritesIt) {
  EXPECT_EQ(ParseLogChoice("3"), (LogChoice{.job = 3}));
  EXPECT_EQ(ParseLogChoice("3:rank:12"), (LogChoice{.job = 3, .rank = 12}));
  EXPECT_EQ(ParseLogChoice("4:aggregators"), (LogChoice{.job = 4, .aggregators = true}));
  for (const char* text : {"", "x", "-1", "3:", "3:rank", "3:rank:", "3:rank:x", "3:rank:1:2",
                           "3:aggregators:1", "99999999999"}) {
    EXPECT_EQ(ParseLogChoice(text), std::nullopt) << text;
  }
}

TEST(LogJson, NewsAreWrittenWithWhatTheyAreOf) {
  const LogNews news{.anew = true,
                     .passed_over = 2,
                     .lines = {{"1", "loss \"0.5\" \xff"}, {"", "gone", true}},
                     .problem = "why",
                     .ended = true};
  EXPECT_EQ(LogDocument({.job = 3, .rank = 1}, news),
            R"({"choice":"3:rank:1","anew":true,"passed_over":2,"lines":[["1","loss \"0.5\" )"
            "\xef\xbf\xbd"
            R"("],["","gone",true]],"problem":"why","ended":true})");
  EXPECT_EQ(LogDocument({.job = 3, .aggregators = true}, {}),
            R"({"choice":"3:aggregators","anew":false,"passed_over":0,"lines":[],"problem":"",)"
            R"("ended":false})");
  EXPECT_EQ(LogDocument({.job = 3}, {}).substr(0, 14), R"({"choice":"3",)");
}

}  // namespace
}  // namespace strata::cli
