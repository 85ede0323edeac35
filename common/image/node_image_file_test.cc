#include "common/image/node_image_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "common/image/image_bytes.h"

namespace strata {
namespace {

using ::testing::HasSubstr;

Bytes Whole(const ImageFile& file) { return OwnBytes(Joined(file)); }

std::string Text(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

WeightImage Weights(float first) {
  return {.version = 9,
          .updates = 8,
          .samples = 7,
          .weights = FloatBytes({first, 2}),
          .state = {FloatBytes({3, first}), FloatBytes({5, 6})}};
}

NodeImage Full() {
  return {.node = 3,
          .clock = 120,
          .chunks = {{.begin = 0,
                      .elements = 2,
                      .push = PushImage{.unsent = {FloatBytes({1, -0.0f})}, .samples = 77},
                      .local = LocalStepsImage{.clock = 120,
                                               .last_samples = 12,
                                               .own = Weights(1),
                                               .start = FloatBytes({8, 9})}},
                     {.begin = 2, .elements = 2, .norms = Weights(4), .arena = FloatBytes({5, 5})},
                     {.begin = 4, .elements = 1, .push = PushImage{}}}};
}

TEST(NodeImageFile, WhatIsWrittenIsReadAgainBitForBit) {
  const Bytes content = Whole(MakeNodeImageFile(Full()));
  const auto read = ParseNodeImageFile(content, "f");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->node, 3u);
  EXPECT_EQ(read->clock, 120u);
  ASSERT_EQ(read->chunks.size(), 3u);
  const NodeChunkImage& first = read->chunks[0];
  EXPECT_EQ(first.push->samples, 77u);
  EXPECT_EQ(Text(first.push->unsent[0]), Text(FloatBytes({1, -0.0f})));
  EXPECT_EQ(first.local->clock, 120u);
  EXPECT_EQ(first.local->last_samples, 12u);
  EXPECT_EQ(first.local->own.samples, 7u);
  EXPECT_EQ(Text(first.local->own.state[1]), Text(FloatBytes({5, 6})));
  EXPECT_EQ(Text(first.local->start), Text(FloatBytes({8, 9})));
  EXPECT_FALSE(first.norms.has_value());
  EXPECT_TRUE(first.arena.empty());
  EXPECT_EQ(Text(read->chunks[1].norms->weights), Text(FloatBytes({4, 2})));
  EXPECT_EQ(Text(read->chunks[1].arena), Text(FloatBytes({5, 5})));
  EXPECT_FALSE(read->chunks[1].push.has_value());
  EXPECT_TRUE(read->chunks[2].push->unsent.empty());
  // And nothing is left out.
  EXPECT_EQ(Text(Whole(MakeNodeImageFile(*read))), Text(content));
}

TEST(NodeImageFile, ATruncatedFileIsRefusedAtEveryOffset) {
  const Bytes content = Whole(MakeNodeImageFile(Full()));
  for (size_t size = 0; size < content.size(); ++size) {
    const auto read = ParseNodeImageFile(content.Part(0, size), "cut");
    ASSERT_FALSE(read.ok()) << size;
    ASSERT_THAT(std::string(read.status().message()), HasSubstr("cut: ")) << size;
  }
}

void ExpectRefused(const std::vector<std::pair<std::string, std::string>>& texts,
                   const std::vector<std::pair<std::string, std::vector<float>>>& floats,
                   const std::string& why) {
  ImageWriter file(kNodeImageFormat);
  for (const auto& [name, text] : texts) file.AddText(name, text);
  for (const auto& [name, values] : floats) file.AddFloats(name, FloatBytes(values));
  const auto read = ParseNodeImageFile(Whole(file.Finish()), "dir/f");
  ASSERT_FALSE(read.ok()) << why;
  EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(read.status().message(), "dir/f: " + why);
}

TEST(NodeImageFile, WhatIsWrongIsNamed) {
  const std::pair<std::string, std::string> node = {"node", R"({"node": 1, "clock": 2})"};
  ExpectRefused({}, {}, "node is not said, or not its clock");
  ExpectRefused({{"node", "{}"}}, {}, "node is not said, or not its clock");
  ExpectRefused({node, {"x", R"({"elements": 1})"}}, {}, "image x has no number for a name");
  ExpectRefused({node, {"0", "{}"}}, {}, "image 0 does not say how many elements it has");
  ExpectRefused({node, {"0", R"({"elements": 0})"}}, {},
                "image 0 does not say how many elements it has");
  ExpectRefused({node, {"0", R"({"elements": 1, "push": {"samples": 1}})"}}, {},
                "image 0 lacks a count of push");
  ExpectRefused({node, {"0", R"({"elements": 1, "push": {"samples": 1, "unsent": 1}})"}}, {},
                "image 0 has no unsent0 as long as it says");
  ExpectRefused({node, {"0", R"({"elements": 1, "local": {"clock": 1}})"}}, {},
                "image 0 lacks a count of local");
  ExpectRefused({node, {"0", R"({"elements": 1, "norms": {}})"}}, {},
                "image 0 lacks a count of norms");
  ExpectRefused({node, {"0", R"({"elements": 1, "norms":
                           {"version": 1, "updates": 1, "samples": 1, "state": 0}})"}},
                {{"0/norms/weights", {1, 2}}}, "image 0 has no norms/weights as long as it says");
  ExpectRefused({node, {"0", R"({"elements": 1})"}}, {{"0/arena", {1, 2}}},
                "image 0 has no arena as long as it says");
  ExpectRefused({node}, {{"0/arena", {1}}}, "0/arena belongs to no image");
  ExpectRefused({node, {"0", R"({"elements": 2})"}, {"1", R"({"elements": 1})"}}, {},
                "image 0 overlaps the next one");
}

}  // namespace
}  // namespace strata
