#include "kernels/fake_cuda/meeting.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace fake_cuda {
namespace {

constexpr uint64_t kMagic = 0x6c63'636e'656b'6166;
constexpr absl::Duration kLook = absl::Microseconds(20);

}  // namespace

std::optional<Meeting::Name> Meeting::Make() {
  strata::UniqueFd fd(memfd_create("fake-nccl", MFD_CLOEXEC));
  if (!fd.valid() || ftruncate(fd.get(), kBytes) != 0) return std::nullopt;
  prctl(PR_SET_DUMPABLE, 1);  // for Open in other processes
  return Name{kMagic, getpid(), fd.Release()};
}

std::unique_ptr<Meeting> Meeting::Open(const Name& name) {
  if (name.magic != kMagic) return nullptr;
  const std::string path = absl::StrCat("/proc/", name.pid, "/fd/", name.fd);
  const strata::UniqueFd fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct stat file = {};
  if (!fd.valid() || fstat(fd.get(), &file) != 0 || file.st_size != kBytes) return nullptr;
  void* at = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (at == MAP_FAILED) return nullptr;
  return std::unique_ptr<Meeting>(new Meeting(static_cast<std::byte*>(at)));
}

Meeting::~Meeting() { munmap(memory_, kBytes); }

bool Meeting::Come(uint32_t rank, uint32_t ranks, int device) {
  Rank& self = shared().ranks[rank];
  self.device = device;
  return self.ranks.exchange(ranks) == 0;
}

bool Meeting::all_here(uint32_t ranks) const {
  for (uint32_t r = 0; r < ranks; ++r) {
    if (shared().ranks[r].ranks == 0) return false;
  }
  return true;
}

bool Meeting::agree(uint32_t ranks) const {
  for (uint32_t r = 0; r < ranks; ++r) {
    if (shared().ranks[r].ranks != ranks) return false;
  }
  return true;
}

std::optional<std::pair<uint32_t, uint32_t>> Meeting::same_device(uint32_t ranks) const {
  for (uint32_t r = 0; r < ranks; ++r) {
    for (uint32_t other = 0; other < r; ++other) {
      if (shared().ranks[r].device == shared().ranks[other].device) return std::pair(other, r);
    }
  }
  return std::nullopt;
}

std::byte* Meeting::piece(uint32_t rank) const { return memory_ + 4096 + rank * kPieceBytes; }

bool Meeting::Pass(uint32_t rank, uint32_t ranks, const std::atomic<bool>& ended) {
  const uint64_t mine = shared().ranks[rank].passed.fetch_add(1) + 1;
  for (uint32_t r = 0; r < ranks; ++r) {
    while (shared().ranks[r].passed < mine) {
      if (ended) return false;
      absl::SleepFor(kLook);
    }
  }
  return true;
}

void Meeting::Leave(uint32_t rank) { shared().ranks[rank].left = 1; }

bool Meeting::all_left(uint32_t ranks) const {
  for (uint32_t r = 0; r < ranks; ++r) {
    if (shared().ranks[r].left == 0) return false;
  }
  return true;
}

}  // namespace fake_cuda
