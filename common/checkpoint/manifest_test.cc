#include "common/checkpoint/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"

namespace strata {
namespace {

using ::testing::HasSubstr;

Manifest Full() {
  return {.job = 7,
          .job_name = "lenet \"5\"",
          .clock = 1200,
          .written = absl::FromUnixSeconds(1790000000),
          .record = std::string("\0\xff record", 9),
          .objects = {{"clock-1200/a.safetensors", 1u << 30, 0xfedcba9876543210},
                      {"clock-1200/b", 0, 1}}};
}

// Returns the text signed as a manifest is.
std::string Signed(const std::string& text) {
  return text + absl::StrFormat("\n%016x\n", XXH3_64bits(text.data(), text.size()));
}

void ExpectRefused(const std::string& content, const std::string& text) {
  const auto manifest = ParseManifest(content, "dir/manifest.json");
  ASSERT_FALSE(manifest.ok()) << text;
  EXPECT_EQ(manifest.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(manifest.status().message()), HasSubstr("dir/manifest.json: "));
  EXPECT_THAT(std::string(manifest.status().message()), HasSubstr(text));
}

TEST(Manifest, WhatIsWrittenIsReadAgain) {
  const auto read = ParseManifest(SerializeManifest(Full()), "m");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, Full());
}

TEST(Manifest, FactsDoNotDependOnWhereAnObjectIsCut) {
  const std::string text = "some content of an object";
  const absl::Span<const char> whole(text);
  const absl::Span<const char> parts[] = {whole.subspan(0, 5), {}, whole.subspan(5)};
  EXPECT_EQ(FactsOf("x", {&whole, 1}), FactsOf("x", parts));
  EXPECT_EQ(FactsOf("x", parts).bytes, text.size());
  EXPECT_EQ(FactsOf("x", parts).checksum, XXH3_64bits(text.data(), text.size()));
}

TEST(Manifest, EveryBitCounts) {
  const std::string content = SerializeManifest(Full());
  for (size_t i = 0; i < content.size(); ++i) {
    std::string other = content;
    other[i] ^= 0x10;
    ASSERT_FALSE(ParseManifest(other, "m").ok()) << i;
    ASSERT_FALSE(ParseManifest(content.substr(0, i), "m").ok()) << i;
  }
  EXPECT_FALSE(ParseManifest(content + "\n", "m").ok());
}

TEST(Manifest, WhatIsMissingIsNamed) {
  ExpectRefused("", "it is cut off");
  ExpectRefused(Signed("[]"), "it is not a JSON object");
  ExpectRefused(Signed("{}"), "format is missing");
  EXPECT_EQ(ParseManifest(Signed(R"({"format": "strata-checkpoint-9"})"), "m").status(),
            absl::FailedPreconditionError(
                "m: format is strata-checkpoint-9, this version reads strata-checkpoint-1"));
  std::string head = R"({"format": "strata-checkpoint-1")";
  ExpectRefused(Signed(head + "}"), "job is missing");
  head += R"(, "job": 1)";
  ExpectRefused(Signed(head + "}"), "name is missing");
  head += R"(, "name": "n")";
  ExpectRefused(Signed(head + R"(, "clock": -1})"), "clock is missing");
  head += R"(, "clock": 5)";
  ExpectRefused(Signed(head + R"(, "written": "yesterday"})"), "written is no time");
  head += R"(, "written": "2026-01-02T03:04:05+00:00")";
  ExpectRefused(Signed(head + R"(, "record": "%"})"), "record is missing");
  head += R"(, "record": "")";
  ExpectRefused(Signed(head + "}"), "objects is missing");
  ExpectRefused(Signed(head + R"(, "objects": [{"name": "a", "bytes": 1}]})"),
                "an object lacks name, bytes or xxh3");
  ExpectRefused(Signed(head + R"(, "objects": [{"name": "a", "bytes": 1, "xxh3": "12"}]})"),
                "an object lacks name, bytes or xxh3");
  ExpectRefused(
      Signed(head + R"(, "objects": [{"name": "../a", "bytes": 1, "xxh3": "0000000000000012"}]})"),
      "object ../a");
  const std::string one = R"({"name": "a", "bytes": 1, "xxh3": "0000000000000012"})";
  ExpectRefused(Signed(head + R"(, "objects": [)" + one + "," + one + "]}"), "a is there twice");
  EXPECT_TRUE(ParseManifest(Signed(head + R"(, "objects": [)" + one + "]}"), "m").ok());
}

// The writer of a manifest can also sign it.
TEST(Manifest, WhatIsSignedAndTooMuchIsRefusedAtOnce) {
  const absl::Time began = absl::Now();
  const std::string head = R"({"format": "strata-checkpoint-1", "job": 1, "name": "n", "clock": 5,)"
                           R"( "written": "2026-01-02T03:04:05+00:00", "record": "", "objects": )";
  ExpectRefused(Signed(std::string(8 << 20, '[')), "its JSON is too large or nested too deep");
  ExpectRefused(Signed(head + "[" + std::string(4 << 20, ',') + "]}"),
                "its JSON is too large or nested too deep");
  std::string fields = "{";
  for (int i = 0; i < 500'000; ++i) absl::StrAppend(&fields, "\"", i, "\":0,");
  ExpectRefused(Signed(fields + "\"x\":0}"), "format is missing");
  // The error is one short line.
  const std::string name = "a\\n" + std::string(1 << 20, 'b');
  for (const std::string& manifest :
       {head + R"([{"name": ")" + name + R"(", "bytes": 1, "xxh3": "0000000000000012"}]})",
        R"({"format": ")" + name + R"("})"}) {
    const std::string said(ParseManifest(Signed(manifest), "m").status().message());
    EXPECT_LT(said.size(), 400u);
    EXPECT_EQ(said.find('\n'), std::string::npos);
  }
  EXPECT_LT(absl::Now() - began, absl::Seconds(20));
}

TEST(PartNameTest, NamesAreReadBack) {
  for (const PartKind kind : {PartKind::kShard, PartKind::kNode, PartKind::kRank}) {
    const PartName part{.kind = kind, .number = 12};
    EXPECT_EQ(ParsePartName("clock-00000000000000000040/" + ToText(part, 7, 3)), part);
  }
  EXPECT_EQ(ToText({.kind = PartKind::kNode, .number = 0}, 7, 3), "node-0-7.3");
}

TEST(PartNameTest, OtherNamesAreNone) {
  for (const char* name : {"manifest.json", "clock-1/shards-1-7.0", "clock-1/shard-x-7.0", "shard",
                           "shard-1-7.0-1", ""}) {
    EXPECT_FALSE(ParsePartName(name)) << name;
  }
}

}  // namespace
}  // namespace strata
