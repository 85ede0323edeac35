#include "training/data/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace strata::training {
namespace {

using ::testing::HasSubstr;

std::string BigEndian(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

std::string Idx(const std::vector<uint32_t>& dimensions, const std::string& values) {
  std::string bytes = BigEndian(0x0800 | static_cast<uint32_t>(dimensions.size()));
  for (uint32_t size : dimensions) bytes += BigEndian(size);
  return bytes + values;
}

std::string Gzip(const std::string& bytes) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(bytes.size() + 1000, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = bytes.size();
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = packed.size();
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

class IdxTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = ::testing::TempDir() + "/idx." +
           ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(dir_);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  std::string Write(const std::string& name, const std::string& bytes) {
    const std::string path = dir_ + "/" + name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  // Two training images of 1 x 2 pixels and one test image.
  void WriteFolder() {
    Write("train-images-idx3-ubyte", Idx({2, 1, 2}, "abcd"));
    Write("train-labels-idx1-ubyte", Idx({2}, {0, 9}));
    Write("t10k-images-idx3-ubyte.gz", Gzip(Idx({1, 1, 2}, "ef")));
    Write("t10k-labels-idx1-ubyte.gz", Gzip(Idx({1}, {3})));
  }
  void ExpectError(const std::string& path, absl::StatusCode code, const std::string& text) {
    auto array = ReadIdx(path, 1);
    ASSERT_FALSE(array.ok());
    EXPECT_EQ(array.status().code(), code) << array.status();
    EXPECT_THAT(std::string(array.status().message()), HasSubstr(path + ": " + text));
    EXPECT_THAT(std::string(array.status().message()), ::testing::Not(HasSubstr("\n")));
  }

  std::string dir_;
};

TEST_F(IdxTest, ReadsPlainAndGzipFiles) {
  WriteFolder();
  auto data = ReadIdxFolder(dir_);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->train.size(), 2u);
  EXPECT_EQ(data->train.channels, 1u);
  EXPECT_EQ(data->train.height, 1u);
  EXPECT_EQ(data->train.width, 2u);
  EXPECT_EQ(data->train.classes, 10u);
  EXPECT_THAT(data->train.pixels, ::testing::ElementsAre('a', 'b', 'c', 'd'));
  EXPECT_THAT(data->train.labels, ::testing::ElementsAre(0, 9));
  EXPECT_THAT(data->test.pixels, ::testing::ElementsAre('e', 'f'));
  EXPECT_THAT(data->test.labels, ::testing::ElementsAre(3));
}

TEST_F(IdxTest, MissingFileIsNamed) {
  WriteFolder();
  std::filesystem::remove(dir_ + "/train-labels-idx1-ubyte");
  auto data = ReadIdxFolder(dir_);
  EXPECT_EQ(data.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(data.status().message(), dir_ + "/train-labels-idx1-ubyte: No such file or directory");
}

TEST_F(IdxTest, DirectoryInPlaceOfAFileIsRefused) {
  ExpectError(dir_, absl::StatusCode::kInvalidArgument, "not a file");
}

TEST_F(IdxTest, OtherMagicIsRefused) {
  ExpectError(Write("text", "hello, world"), absl::StatusCode::kInvalidArgument,
              "not an IDX file of bytes with 1 dimensions");
  // The error shows nothing of the file's content, which the reader may not be allowed to see.
  EXPECT_THAT(std::string(ReadIdx(Write("text", "hello, world"), 1).status().message()),
              ::testing::EndsWith("/text: not an IDX file of bytes with 1 dimensions"));
  ExpectError(Write("images", Idx({1, 1, 1}, "a")), absl::StatusCode::kInvalidArgument, "not an");
}

TEST_F(IdxTest, TruncationAtEveryByteIsAnError) {
  const std::string plain = Idx({3}, "abc");
  for (size_t size = 0; size < plain.size(); ++size) {
    ExpectError(Write("cut", plain.substr(0, size)), absl::StatusCode::kDataLoss, "truncated");
  }
  const std::string packed = Gzip(plain);
  for (size_t size = 2; size < packed.size(); ++size) {
    auto array = ReadIdx(Write("cut.gz", packed.substr(0, size)), 1);
    EXPECT_EQ(array.status().code(), absl::StatusCode::kDataLoss) << size << array.status();
  }
}

TEST_F(IdxTest, CorruptGzipIsAnError) {
  std::string packed = Gzip(Idx({3}, "abc"));
  packed[packed.size() - 6] ^= 1;  // the stream's CRC
  ExpectError(Write("corrupt.gz", packed), absl::StatusCode::kDataLoss, "corrupt gzip data");
}

TEST_F(IdxTest, ExtraBytesAreAnError) {
  ExpectError(Write("long", Idx({3}, "abcd")), absl::StatusCode::kDataLoss, "more bytes than");
}

TEST_F(IdxTest, HugeClaimsAreRefusedBeforeMemoryIsTaken) {
  ExpectError(Write("huge", Idx({0xffffffff}, "a")), absl::StatusCode::kInvalidArgument,
              "claims more than");
  auto array = ReadIdx(Write("product", Idx({0xffffffff, 0xffffffff, 0xffffffff}, "a")), 3);
  EXPECT_EQ(array.status().code(), absl::StatusCode::kInvalidArgument);
  ExpectError(Write("zero", Idx({0}, "")), absl::StatusCode::kInvalidArgument, "dimension 0 is 0");
}

TEST_F(IdxTest, LabelOutOfRangeIsNamed) {
  WriteFolder();
  const std::string path = Write("train-labels-idx1-ubyte", Idx({2}, {0, 10}));
  auto data = ReadIdxFolder(dir_);
  EXPECT_EQ(data.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(data.status().message(), path + ": the label of sample 1 is not in 0 to 9");
}

TEST_F(IdxTest, CountsThatDisagreeAreNamed) {
  WriteFolder();
  Write("train-labels-idx1-ubyte", Idx({3}, {0, 1, 2}));
  auto data = ReadIdxFolder(dir_);
  EXPECT_EQ(data.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(data.status().message()), HasSubstr("holds 2 images, but"));
}

TEST_F(IdxTest, TestImagesOfAnotherSizeAreRefused) {
  WriteFolder();
  Write("t10k-images-idx3-ubyte.gz", Gzip(Idx({1, 2, 2}, "efgh")));
  EXPECT_EQ(ReadIdxFolder(dir_).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(IdxTest, LimitsKeepTheFirstSamples) {
  WriteFolder();
  proto::Data config;
  config.mutable_idx()->set_dir(dir_);
  config.set_limit_train(1);
  config.set_limit_test(5);
  auto data = LoadData(config, 1);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->train.size(), 1u);
  EXPECT_THAT(data->train.pixels, ::testing::ElementsAre('a', 'b'));
  EXPECT_EQ(data->test.size(), 1u);
}

TEST_F(IdxTest, TrainingSamplesAreCountedAsTheyWouldBeLoaded) {
  WriteFolder();
  proto::Data config;
  config.mutable_idx()->set_dir(dir_);
  EXPECT_EQ(*CountTrainingSamples(config), 2u);
  config.set_limit_train(1);
  EXPECT_EQ(*CountTrainingSamples(config), 1u);
  config.set_limit_train(3);
  EXPECT_EQ(*CountTrainingSamples(config), 2u);
  config.mutable_idx()->set_dir(dir_ + "/none");
  EXPECT_EQ(CountTrainingSamples(config).status().code(), absl::StatusCode::kNotFound);
  config.clear_limit_train();
  config.mutable_synthetic();
  EXPECT_EQ(*CountTrainingSamples(config), 4096u);
}

}  // namespace
}  // namespace strata::training
