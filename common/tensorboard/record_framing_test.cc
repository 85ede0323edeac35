#include "common/tensorboard/record_framing.h"

#include <sstream>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::tensorboard {
namespace {

std::vector<std::string> ReadAll(const std::string& bytes, int64_t* whole_bytes) {
  std::istringstream in(bytes);
  RecordReader reader(&in);
  std::vector<std::string> payloads;
  for (std::string payload; reader.Next(&payload);) payloads.push_back(payload);
  *whole_bytes = reader.whole_bytes();
  return payloads;
}

// RFC 3720, appendix B.4, and the catalogue's check value.
TEST(Crc32c, IsThatOfThePublishedVectors) {
  std::string rising, falling;
  for (char c = 0; c < 32; ++c) rising.push_back(c);
  falling.assign(rising.rbegin(), rising.rend());
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aa);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43);
  EXPECT_EQ(Crc32c(rising), 0x46dd794e);
  EXPECT_EQ(Crc32c(falling), 0x113fdb5c);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283);
  EXPECT_EQ(Crc32c(""), 0u);
}

// All event files of TensorFlow's begin so: a record of 24 bytes, the version of the file.
TEST(RecordFraming, BeginsAsFilesOfTensorFlowDo) {
  const std::string record = FrameRecord(std::string(24, 'x'));
  EXPECT_EQ(record.size(), 8u + 4u + 24u + 4u);
  EXPECT_EQ(record.substr(0, 12), std::string("\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22", 12));
}

TEST(RecordFraming, ReadsBackWhatWasFramed) {
  const std::vector<std::string> payloads = {"one", "", std::string(70000, 'z'),
                                             std::string("\0\1\2", 3)};
  std::string file;
  for (const std::string& payload : payloads) file += FrameRecord(payload);
  int64_t whole = 0;
  EXPECT_EQ(ReadAll(file, &whole), payloads);
  EXPECT_EQ(whole, static_cast<int64_t>(file.size()));
}

TEST(RecordFraming, ReadsUpToTheRecordThatIsCutShortWhereverItIs) {
  const std::string first = FrameRecord("the first"), second = FrameRecord("the second");
  const std::string file = first + second;
  for (size_t bytes = 0; bytes < file.size(); ++bytes) {
    int64_t whole = -1;
    const bool has_first = bytes >= first.size();
    EXPECT_THAT(ReadAll(file.substr(0, bytes), &whole), testing::SizeIs(has_first ? 1 : 0));
    EXPECT_EQ(whole, has_first ? static_cast<int64_t>(first.size()) : 0) << bytes;
  }
}

TEST(RecordFraming, ReadsNothingOfARecordInWhichAnyByteIsWrong) {
  const std::string first = FrameRecord("the first"), second = FrameRecord("the second");
  for (size_t at = 0; at < second.size(); ++at) {
    std::string damaged = second;
    damaged[at] ^= 0x10;
    int64_t whole = -1;
    EXPECT_THAT(ReadAll(first + damaged, &whole), testing::ElementsAre("the first")) << at;
    EXPECT_EQ(whole, static_cast<int64_t>(first.size()));
  }
}

}  // namespace
}  // namespace strata::tensorboard
