#include "kernels/fake_cuda/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/require.h"
#include "kernels/fake_cuda/control.h"

namespace fake_cuda {
namespace {

constexpr uint64_t kMagic = 0x6564'656b'6166'5f73;
constexpr uint64_t kPage = 4096;
// Uninitialized memory is not 0.
constexpr int kFresh = 0xcb;

uint64_t Reserve(size_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at == MAP_FAILED ? 0 : reinterpret_cast<uint64_t>(at);
}

uint64_t Rounded(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

std::byte* Pointer(uint64_t address) { return reinterpret_cast<std::byte*>(address); }

}  // namespace

DeviceMemory& DeviceMemory::Get() {
  static DeviceMemory* const memory = std::make_unique<DeviceMemory>().release();
  return *memory;
}

DeviceMemory::DeviceMemory() : base_(Reserve(kRange)), real_(Reserve(kRange)) {}

std::byte* DeviceMemory::Map(strata::UniqueFd fd, size_t bytes, int device, bool opened) {
  const uint64_t offset = next_, room = Rounded(bytes);
  if (base_ == 0 || real_ == 0 || room > kRange - kPage - next_) return nullptr;
  void* at = mmap(Pointer(real_ + offset), room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                  fd.get(), 0);
  if (at == MAP_FAILED) return nullptr;
  next_ += room + kPage;
  Block& block = blocks_[offset];
  block.fd = std::move(fd);
  block.bytes = bytes;
  block.device = device;
  block.opened = opened;
  return Pointer(base_ + offset);
}

std::byte* DeviceMemory::Allocate(int device, size_t bytes) {
  const absl::MutexLock lock(&mutex_);
  const Settings& settings = CurrentSettings();
  if (settings.taken_bytes + Sum(device, false) + bytes > settings.memory_bytes) return nullptr;
  strata::UniqueFd fd(memfd_create("fake-device", MFD_CLOEXEC));
  if (!fd.valid() || ftruncate(fd.get(), Rounded(bytes)) != 0) return nullptr;
  std::byte* address = Map(std::move(fd), bytes, device, false);
  if (address != nullptr) {
    std::memset(Pointer(reinterpret_cast<uint64_t>(address) - base_ + real_), kFresh, bytes);
  }
  return address;
}

bool DeviceMemory::Remove(std::byte* address, bool opened) {
  const absl::MutexLock lock(&mutex_);
  const auto found = blocks_.find(reinterpret_cast<uint64_t>(address) - base_);
  if (found == blocks_.end() || found->second.opened != opened) return false;
  mmap(Pointer(real_ + found->first), Rounded(found->second.bytes), PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  blocks_.erase(found);
  return true;
}

bool DeviceMemory::Free(std::byte* address) { return Remove(address, false); }
bool DeviceMemory::Close(std::byte* address) { return Remove(address, true); }

std::optional<DeviceMemory::Name> DeviceMemory::FindName(const std::byte* address) const {
  const absl::MutexLock lock(&mutex_);
  const auto found = blocks_.find(reinterpret_cast<uint64_t>(address) - base_);
  if (found == blocks_.end() || found->second.opened) return std::nullopt;
  const Block& block = found->second;
  prctl(PR_SET_DUMPABLE,
        1);  // a driver has its own mechanism; Open needs this process's /proc/PID/fd
  return Name{kMagic, getpid(), block.fd.get(), block.device, block.bytes};
}

std::byte* DeviceMemory::Open(const Name& name) {
  if (name.magic != kMagic) return nullptr;
  if (name.pid == getpid() && !CurrentSettings().opens_own) return nullptr;
  const std::string path = absl::StrCat("/proc/", name.pid, "/fd/", name.fd);
  strata::UniqueFd fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct stat file = {};
  if (!fd.valid() || fstat(fd.get(), &file) != 0) return nullptr;
  if (static_cast<uint64_t>(file.st_size) != Rounded(name.bytes)) return nullptr;
  const absl::MutexLock lock(&mutex_);
  return Map(std::move(fd), name.bytes, name.device, true);
}

std::byte* DeviceMemory::Real(const std::byte* address, size_t bytes) const {
  const uint64_t offset = reinterpret_cast<uint64_t>(address) - base_;
  const absl::MutexLock lock(&mutex_);
  const auto* const found = Find(offset);
  if (found == nullptr || bytes > found->second.bytes - (offset - found->first)) return nullptr;
  return Pointer(real_ + offset);
}

const std::pair<const uint64_t, DeviceMemory::Block>* DeviceMemory::Find(uint64_t offset) const {
  const auto after = blocks_.upper_bound(offset);
  if (after == blocks_.begin()) return nullptr;
  const auto& found = *std::prev(after);
  // One past the end is an address, too.
  return offset - found.first > found.second.bytes ? nullptr : &found;
}

bool DeviceMemory::EnablePeer(int device, int peer) {
  const absl::MutexLock lock(&mutex_);
  return peers_.emplace(device, peer).second;
}

bool DeviceMemory::MayUse(int device, const std::byte* address) const {
  const absl::MutexLock lock(&mutex_);
  const auto* const found = Find(reinterpret_cast<uint64_t>(address) - base_);
  STRATA_REQUIRE(found != nullptr);
  const int owner = found->second.device;
  return owner == device || (CurrentSettings().peers && peers_.contains({device, owner}));
}

size_t DeviceMemory::Sum(std::optional<int> device, bool opened) const {
  size_t sum = 0;
  for (const auto& [offset, block] : blocks_) {
    if (block.opened == opened && (!device || *device == block.device)) sum += block.bytes;
  }
  return sum;
}

size_t DeviceMemory::used(int device) const {
  const absl::MutexLock lock(&mutex_);
  return Sum(device, false);
}
size_t DeviceMemory::allocated() const {
  const absl::MutexLock lock(&mutex_);
  return Sum(std::nullopt, false);
}
size_t DeviceMemory::opened() const {
  const absl::MutexLock lock(&mutex_);
  return Sum(std::nullopt, true);
}

}  // namespace fake_cuda
