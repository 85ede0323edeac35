#include "common/image/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstring>
#include <fstream>

#include "common/os/atomic_file.h"

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

TEST(Safetensors, TensorsOfAnyTypeAreSeenWhereTheyAreAskedFor) {
  const std::string file = WithHeader(R"({"a":{"dtype":"F64","shape":[2],"data_offsets":[0,16]},)"
                                      R"("b":{"shape":[3],"dtype":"BF16","data_offsets":[16,22]},)"
                                      R"("c":{"dtype":"BOOL","shape":[],"data_offsets":[22,23]},)"
                                      R"("d":{"dtype":"F32","shape":[1],"data_offsets":[23,27]}})",
                                      std::string(27, 'x'));
  EXPECT_EQ(ViewSafetensors(file, "f").status(),
            absl::InvalidArgumentError("f: not a safetensors file: tensor a is not of dtype F32"));
  const auto model = ViewSafetensorsOfAnyType(file, "f");
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ(model->tensors.size(), 4u);
  EXPECT_EQ(model->tensors[1].name, "b");
  EXPECT_EQ(model->tensors[1].dtype, "BF16");
  EXPECT_EQ(model->tensors[1].values.size(), 6u);
  EXPECT_EQ(model->tensors[3].dtype, "F32");
  for (const auto& [header, why] : {
           std::pair(R"({"t":{"dtype":"F7","shape":[1],"data_offsets":[0,4]}})",
                     "tensor t has an unknown dtype"),
           std::pair(R"({"t":{"dtype":"I16","shape":[1],"data_offsets":[0,4]}})",
                     "tensor t has data_offsets that do not fit its shape"),
       }) {
    EXPECT_EQ(ViewSafetensorsOfAnyType(WithHeader(header, "four"), "f").status(),
              absl::InvalidArgumentError(std::string("f: not a safetensors file: ") + why));
  }
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

// Returns a file with a tensor `t` of one value, whose header has `fields`.
std::string Tensor(const std::string& fields) {
  return WithHeader("{\"t\":{" + fields + "}}", std::string(4, 'x'));
}

TEST(Safetensors, HeadersThatAreMeantToHarmAreRefused) {
  const std::string good = R"("dtype":"F32","shape":[1],"data_offsets":[0,4])";
  const std::string none = R"({"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
  // Twice: readers may take either.
  ExpectInvalid(WithHeader(R"({"t":)" + none + R"(,"t":)" + none + "}", ""),
                "tensor t is there twice");
  ExpectInvalid(Tensor(good + R"(,"shape":[1])"), "tensor t has shape twice");
  ExpectInvalid(Tensor(good + R"(,"data_offsets":[0,4])"), "tensor t has data_offsets twice");
  ExpectInvalid(Tensor(good + R"(,"dtype":"F32")"), "tensor t has dtype twice");
  ExpectInvalid(WithHeader(R"({"__metadata__":{},"__metadata__":{}})", ""),
                "metadata is there twice");
  ExpectInvalid(WithHeader(R"({"__metadata__":{"a":"1","a":"2"}})", ""), "a is there twice");
  // Beyond the file, before its beginning, in the wrong order.
  const std::string shape = R"("dtype":"F32","shape":[1],)";
  ExpectInvalid(Tensor(shape + R"("data_offsets":[4,8])"), "cut off");
  ExpectInvalid(Tensor(shape + R"("data_offsets":[4,0])"), "do not fit its shape");
  ExpectInvalid(Tensor(shape + R"("data_offsets":[-4,0])"), "do not fit its shape");
  ExpectInvalid(Tensor(shape + R"("data_offsets":[0,4,4])"),
                "has no dtype, shape and data_offsets");
  ExpectInvalid(Tensor(shape + R"("data_offsets":[18446744073709551612,18446744073709551616])"),
                "do not fit its shape");
  ExpectInvalid(Tensor(shape + R"("data_offsets":[0,1e1])"), "do not fit its shape");
  // Products that overflow, or wrap around to 4.
  for (const char* huge : {"[4611686018427387905]", "[2147483649,2147483649,4]",
                           "[18446744073709551615,18446744073709551615]"}) {
    ExpectInvalid(Tensor(R"("dtype":"F32","data_offsets":[0,4],"shape":)" + std::string(huge)),
                  "tensor t is too large");
  }
  std::string ones = "[1";
  for (int i = 0; i < 64; ++i) ones += ",1";
  ExpectInvalid(Tensor(R"("dtype":"F32","data_offsets":[0,4],"shape":)" + ones + "]"),
                "has an impossible shape");
  ExpectInvalid(Tensor(R"("dtype":"F32","data_offsets":[0,4],"shape":[[1]])"),
                "has an impossible shape");
  ExpectInvalid(Tensor(R"("dtype":["F32"],"data_offsets":[0,4],"shape":[1])"), "has no dtype");
  ExpectInvalid(Tensor(good + R"(,"x":)" + std::string(20, '[') + std::string(20, ']')),
                "nested too deep");
  ExpectInvalid(Tensor(good) + "more", "bytes after the last tensor");
  ExpectInvalid(WithHeader(R"({"t":[1]})", ""), "tensor t has no dtype");
  ExpectInvalid(WithHeader(R"({"__metadata__":[]})", ""), "the metadata is not an object");
  ExpectInvalid(WithHeader(R"({"__metadata__":{"a":{}}})", ""), "the metadata is not of strings");
  // Unknown fields of a tensor are ignored.
  std::ofstream(Path(), std::ios::binary)
      << Tensor(good + R"(,"x":[{"shape":[7],"y":null}],"z":1.5)");
  const auto model = ReadSafetensors(Path());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->tensors[0].shape, std::vector<uint64_t>{1});
}

// A head may have 100 MB. A tenth of that reveals superlinear time or memory.
TEST(Safetensors, LargeHeadersTakeNeitherTimeNorMemory) {
  constexpr size_t kBytes = 10'000'000;
  rusage before = {}, after = {};
  getrusage(RUSAGE_SELF, &before);
  const auto expect_invalid = [](const std::string& header, const std::string& text) {
    const std::string file = WithHeader(header, "");
    const absl::Status status = ParseSafetensors(file, "dir/f").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(text));
    EXPECT_LT(status.message().size(), 400u);
    EXPECT_EQ(status.message().find('\n'), absl::string_view::npos);
  };
  expect_invalid(std::string(kBytes, '['), "not a JSON object");
  expect_invalid(R"({"t":)" + std::string(kBytes, '['), "tensor t has no dtype");
  expect_invalid(R"({"t":{"x":)" + std::string(kBytes, '['), "nested too deep");
  std::string flat = R"({"t":{"x":[)";
  while (flat.size() < kBytes) flat += "[],";
  expect_invalid(flat, "not a JSON object");
  expect_invalid(R"({"a\nb)" + std::string(kBytes, 'c') + R"(":1})", "tensor a\\nbc");
  // As many names as fit: they must not be compared pairwise.
  std::string many = "{";
  for (int i = 0; many.size() < kBytes; ++i) {
    many += "\"" + std::to_string(i) + R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},)";
  }
  expect_invalid(many + R"("0":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})",
                 "tensor 0 is there twice");
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 400 << 10) << "KiB";
  EXPECT_LT(after.ru_utime.tv_sec - before.ru_utime.tv_sec, 40);
}

TEST(Safetensors, MissingFolderIsNamed) {
  const std::string path = ::testing::TempDir() + "/nowhere/model.safetensors";
  auto status = WriteSafetensors(path, {}, {});
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(path));
}

}  // namespace
}  // namespace strata
