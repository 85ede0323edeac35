#include <openssl/sha.h>
#include <zlib.h>

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/render/top/top_screen.h"
#include "cli/web/page.h"
#include "cli/web/page/page_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kHtml[] =
    "<style>{{style}}</style><p>{{palette}}</p><script src=\"/chart.js\"></script>"
    "<script>{{page_js}}</script>";

// As a browser makes it of what is inside of an element.
std::string HashSource(const std::string& text) {
  unsigned char hash[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), hash);
  return absl::StrCat(
      "'sha256-",
      absl::Base64Escape(absl::string_view(reinterpret_cast<const char*>(hash), sizeof(hash))),
      "'");
}

// What stands between the two, the last time that they are there.
std::string Inside(const std::string& html, const std::string& begin, const std::string& end) {
  const size_t to = html.rfind(end);
  const size_t from = html.rfind(begin, to) + begin.size();
  return html.substr(from, to - from);
}

std::string Gunzip(const std::string& packed) {
  z_stream stream = {};
  EXPECT_EQ(inflateInit2(&stream, 15 + 16), Z_OK);
  std::string text(4 << 20, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = packed.size();
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = text.size();
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  text.resize(stream.total_out);
  inflateEnd(&stream);
  return text;
}

void ExpectPolicyOfWhatIsServed(const Page& page) {
  EXPECT_THAT(page.policy,
              HasSubstr(absl::StrCat("style-src ",
                                     HashSource(Inside(*page.html, "<style>", "</style>")), ";")));
  EXPECT_THAT(page.policy, HasSubstr(absl::StrCat(
                               "script-src 'self' ",
                               HashSource(Inside(*page.html, "<script>", "</script>")), ";")));
}

TEST(PagePolicy, NamesTheStyleAndTheScriptThatAreServedByTheirHashes) {
  const Page page = MakePage(kHtml, "p { color: red }\n", "let a = '<b>';\n", "chart", "{}");
  EXPECT_EQ(*page.html,
            "<style>p { color: red }\n</style><p>{}</p><script src=\"/chart.js\"></script>"
            "<script>let a = '<b>';\n</script>");
  ExpectPolicyOfWhatIsServed(page);
}

TEST(PagePolicy, WhatIsPutInIsNotSearchedForPlaces) {
  const Page page = MakePage(kHtml, "a{}", "let a = '{{style}} {{palette}}';", "chart", "{}");
  EXPECT_THAT(*page.html, HasSubstr("let a = '{{style}} {{palette}}';"));
  ExpectPolicyOfWhatIsServed(page);
}

TEST(PagePolicy, AllowsNothingElse) {
  const std::string policy = MakePage(kHtml, "a{}", "b()", "chart", "{}").policy;
  for (const char* part : {"default-src 'none';", "connect-src 'self';", "base-uri 'none';",
                           "form-action 'none';", "frame-ancestors 'none'"}) {
    EXPECT_THAT(policy, HasSubstr(part));
  }
  for (const char* part : {"unsafe", "http:", "https:", "data:", "*"}) {
    EXPECT_THAT(policy, Not(HasSubstr(part)));
  }
}

TEST(PagePolicy, HoldsForThePageOfThisBinaryWhichHasAllItNeedsAndIsSmall) {
  const Page page = OwnPage();
  ExpectPolicyOfWhatIsServed(page);
  for (const char* place : {"{{style}}", "{{page_js}}", "{{palette}}"}) {
    EXPECT_THAT(*page.html, Not(HasSubstr(place)));
  }
  EXPECT_LE(page.html->size() + page.chart_js->size(), 300u << 10);
}

TEST(PagePolicy, ThePackedFormsHoldTheSame) {
  const Page page = OwnPage();
  EXPECT_EQ(Gunzip(*page.html_gzip), *page.html);
  EXPECT_EQ(Gunzip(*page.chart_js_gzip), *page.chart_js);
}

TEST(PageWords, AWaitIsStuckFromTheSameSecondOnAsStrataTopSays) {
  // Not by a matcher, which would print all of the script.
  EXPECT_TRUE(absl::StrContains(kWebJs, absl::StrCat("\nconst STUCK_S = ", kStuckSeconds, ";")));
}

}  // namespace
}  // namespace strata::cli
