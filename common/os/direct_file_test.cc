#include "common/os/direct_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "common/buffer_pool.h"
#include "common/unique_fd.h"

namespace strata {
namespace {

using Pieces = std::vector<absl::Span<const char>>;

constexpr size_t kBlock = kDirectAlignment;

class DirectFile : public testing::Test {
 protected:
  // Position-dependent bytes, `shift` bytes after an aligned address.
  absl::Span<const char> MakeBytes(size_t size, size_t shift) {
    std::shared_ptr<std::byte>& memory =
        memory_.emplace_back(AlignedMemory(size + shift, kDirectAlignment));
    char* const begin = reinterpret_cast<char*>(memory.get()) + shift;
    for (size_t i = 0; i < size; ++i) begin[i] = static_cast<char>(++last_ * 2654435761u >> 24);
    return {begin, size};
  }

  // Writes the pieces, and expects the file to have them when read in both ways.
  void ExpectKept(const Pieces& pieces) {
    std::string all;
    for (const absl::Span<const char> piece : pieces) all.append(piece.data(), piece.size());
    const UniqueFd fd(open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    ASSERT_TRUE(fd.valid());
    const absl::Status written = WritePieces(fd.get(), pieces, PageCache::kBypass, path_);
    ASSERT_TRUE(written.ok()) << written;
    struct stat facts = {};
    ASSERT_EQ(fstat(fd.get(), &facts), 0);
    ASSERT_EQ(facts.st_size, all.size());
    size_t seen = 0;
    bool same = true;
    const absl::Status pieces_read =
        ReadDirectly(fd.get(), all.size(), path_, [&](absl::Span<const char> piece) {
          same = same && all.compare(seen, piece.size(), piece.data(), piece.size()) == 0;
          seen += piece.size();
          return absl::OkStatus();
        });
    ASSERT_TRUE(pieces_read.ok()) << pieces_read;
    EXPECT_TRUE(same);
    EXPECT_EQ(seen, all.size());
    const UniqueFd ordinary(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    std::string cached(all.size() + 1, '\0');
    ASSERT_EQ(pread(ordinary.get(), cached.data(), cached.size(), 0), all.size());
    EXPECT_EQ(std::memcmp(cached.data(), all.data(), all.size()), 0);
  }

  void TearDown() override { unlink(path_.c_str()); }

  const std::string path_ = testing::TempDir() + "/direct_file_test";
  std::vector<std::shared_ptr<std::byte>> memory_;
  uint32_t last_ = 0;
};

TEST_F(DirectFile, BlocksThatAreAlignedAreKept) {
  Pieces pieces;
  for (int i = 0; i < 20; ++i) pieces.push_back(MakeBytes(1 << 20, 0));
  ExpectKept(pieces);
}

TEST_F(DirectFile, OnePieceThatIsLargerThanACallIsKept) {
  ExpectKept({MakeBytes((size_t{20} << 20) + 12, 0)});
  ExpectKept({MakeBytes((size_t{20} << 20) + 12, 4)});
}

TEST_F(DirectFile, MorePiecesThanACallTakesAreKept) {
  Pieces pieces;
  for (int i = 0; i < 300; ++i) pieces.push_back(MakeBytes(64 << 10, 0));
  ExpectKept(pieces);
}

// A head, large vectors, small ones, and then large ones that no longer begin at a block.
TEST_F(DirectFile, PiecesOfAllSizesAndPlacesAreKept) {
  ExpectKept({MakeBytes(3 * kBlock, 8),
              MakeBytes(5 << 20, 0),
              MakeBytes(40, 0),
              {},
              MakeBytes(9 << 20, 0),
              MakeBytes(kBlock - 40, 16),
              MakeBytes(4 << 20, 0),
              MakeBytes(kBlock + 4, 64),
              MakeBytes(1, 0)});
}

TEST_F(DirectFile, SmallFilesAreKept) {
  ExpectKept({});
  ExpectKept({MakeBytes(1, 0)});
  ExpectKept({MakeBytes(kBlock, 0), MakeBytes(kBlock, 3), MakeBytes(17, 0)});
}

TEST_F(DirectFile, LargeOnesPassThePageCacheBy) {
  const UniqueFd fd(open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (fcntl(fd.get(), F_SETFL, O_RDWR | O_DIRECT) != 0) GTEST_SKIP() << "not on this file system";
  ASSERT_EQ(fcntl(fd.get(), F_SETFL, O_RDWR), 0);
  ASSERT_TRUE(
      WritePieces(fd.get(), Pieces{MakeBytes(kDirectBytesMin, 0)}, PageCache::kBypass, path_).ok());
  EXPECT_NE(fcntl(fd.get(), F_GETFL) & O_DIRECT, 0);
}

TEST_F(DirectFile, AFileThatIsShorterIsDataLoss) {
  const UniqueFd fd(open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  ASSERT_TRUE(
      WritePieces(fd.get(), Pieces{MakeBytes(kDirectBytesMin, 0)}, PageCache::kBypass, path_).ok());
  for (const size_t more : {size_t{1}, kBlock, size_t{10} << 20}) {
    const size_t size = kDirectBytesMin + more;
    const absl::Status read = ReadDirectly(fd.get(), size, path_,
                                           [](absl::Span<const char>) { return absl::OkStatus(); });
    EXPECT_TRUE(absl::IsDataLoss(read)) << read;
    EXPECT_NE(read.message().find(path_), absl::string_view::npos) << read;
  }
}

TEST_F(DirectFile, AnErrorOfWhoTakesEndsReading) {
  const UniqueFd fd(open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  ASSERT_TRUE(
      WritePieces(fd.get(), Pieces{MakeBytes(kDirectBytesMin, 0)}, PageCache::kBypass, path_).ok());
  int calls = 0;
  EXPECT_EQ(ReadDirectly(fd.get(), kDirectBytesMin, path_,
                         [&](absl::Span<const char>) {
                           ++calls;
                           return absl::AbortedError("enough");
                         }),
            absl::AbortedError("enough"));
  EXPECT_EQ(calls, 1);
}

// The limit is in the middle of a call's blocks, and then in the middle of a block.
TEST_F(DirectFile, AFullDiskIsAnErrorThatNamesTheFile) {
  signal(SIGXFSZ, SIG_IGN);
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  for (const rlim_t limit : {rlim_t{10} << 20, (rlim_t{10} << 20) + 100}) {
    const UniqueFd fd(open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    const rlimit less = {.rlim_cur = limit, .rlim_max = before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &less), 0);
    const absl::Status written =
        WritePieces(fd.get(), Pieces{MakeBytes(17 << 20, 0)}, PageCache::kBypass, path_);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_FALSE(written.ok());
    EXPECT_NE(written.message().find(path_ + ": File too large"), absl::string_view::npos)
        << written;
  }
}

}  // namespace
}  // namespace strata
