#include "common/image/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "common/file/atomic_file.h"

namespace strata {
namespace {

std::string Path() {
  return ::testing::TempDir() + "/" +
         ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".safetensors";
}

std::string WithHeader(const std::string& header, const std::string& values) {
  const uint64_t length = header.size();
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  return file + header + values;
}

void ExpectInvalid(const std::string& file, const std::string& text) {
  std::ofstream(Path(), std::ios::binary) << file;
  auto model = ReadSafetensors(Path());
  ASSERT_FALSE(model.ok()) << text;
  EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(model.status().message()), ::testing::HasSubstr(Path()));
  EXPECT_THAT(std::string(model.status().message()), ::testing::HasSubstr(text));
}

TEST(Safetensors, WhatIsWrittenIsReadAgain) {
  const std::vector<float> a = {1, 2, 3, 4, 5, 6}, b = {-0.5f}, none;
  ASSERT_TRUE(WriteSafetensors(Path(), {{"model", "m"}, {"job", "\"quoted\""}},
                               {{"z", {2, 3}, a}, {"a.b", {}, b}, {"empty", {0, 4}, none}})
                  .ok());
  auto model = ReadSafetensors(Path());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->metadata,
            (std::map<std::string, std::string>{{"model", "m"}, {"job", "\"quoted\""}}));
  ASSERT_EQ(model->tensors.size(), 3u);
  EXPECT_EQ(model->tensors[0].name, "z");
  EXPECT_EQ(model->tensors[0].shape, (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(model->tensors[0].values, a);
  EXPECT_EQ(model->tensors[1].values, b);
  EXPECT_TRUE(model->tensors[1].shape.empty());
  EXPECT_EQ(model->tensors[2].shape, (std::vector<uint64_t>{0, 4}));
}

TEST(Safetensors, BytesAreThoseOfTheFormat) {
  const std::vector<float> values = {1.0f};
  ASSERT_TRUE(WriteSafetensors(Path(), {{"k", "v"}}, {{"t", {1}, values}}).ok());
  const std::string file = ReadFile(Path(), 1000).value();
  std::string header =
      R"({"__metadata__":{"k":"v"},"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  EXPECT_EQ(file, WithHeader(header, std::string("\0\0\x80\x3f", 4)));
}

TEST(Safetensors, TruncationAtEveryByteIsAnError) {
  const std::vector<float> values = {1, 2};
  ASSERT_TRUE(WriteSafetensors(Path(), {}, {{"t", {2}, values}}).ok());
  const std::string file = ReadFile(Path(), 1000).value();
  for (size_t size = 0; size < file.size(); ++size) {
    ExpectInvalid(file.substr(0, size), "not a safetensors file");
  }
  ExpectInvalid(file + "x", "bytes after the last tensor");
}

TEST(Safetensors, HeadersThatLieAreRefused) {
  const std::string eight(8, 'x');
  ExpectInvalid(std::string(8, '\xff') + eight, "header is cut off");
  ExpectInvalid(WithHeader("[]", ""), "not a JSON object");
  ExpectInvalid(WithHeader("{", ""), "not a JSON object");
  ExpectInvalid(WithHeader(R"({"__metadata__":{"a":1}})", ""), "metadata is not of strings");
  ExpectInvalid(WithHeader(R"({"t":{}})", ""), "tensor t has no dtype");
  ExpectInvalid(WithHeader(R"({"t":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}})", eight),
                "tensor t is not of dtype F32");
  ExpectInvalid(WithHeader(R"({"t":{"dtype":"F32","shape":[-1],"data_offsets":[0,8]}})", eight),
                "tensor t has an impossible shape");
  ExpectInvalid(
      WithHeader(R"({"t":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}})",
                 eight),
      "tensor t is too large");
  ExpectInvalid(WithHeader(R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})", eight),
                "do not fit its shape");
  ExpectInvalid(WithHeader(R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", eight),
                "leave a gap");
  ExpectInvalid(WithHeader(R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                           R"("u":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                           eight),
                "overlap");
}

TEST(Safetensors, MissingFolderIsNamed) {
  const std::string path = ::testing::TempDir() + "/nowhere/model.safetensors";
  auto status = WriteSafetensors(path, {}, {});
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(path));
}

}  // namespace
}  // namespace strata
