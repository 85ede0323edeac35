#include "common/keys/pem.h"

#include <openssl/pem.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/keys/openssl_pointers.h"

namespace strata::keys {
namespace {

struct FreeFromOpenSsl {
  template <typename T>
  void operator()(T* memory) const {
    OPENSSL_free(memory);
  }
};
template <typename T>
using Allocated = std::unique_ptr<T, FreeFromOpenSsl>;

bool NothingMoreBegins() { return ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE; }

}  // namespace

absl::StatusOr<std::vector<PemBlock>> PemBlocks(absl::string_view pem) {
  if (pem.size() > kPemBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("the PEM text is larger than ", kPemBytesMax, " bytes"));
  }
  const ErrorQueueScope scope;
  const BioPointer bio = ReadOnlyBio(pem);
  std::vector<PemBlock> blocks;
  while (true) {
    char* label = nullptr;
    char* header = nullptr;
    unsigned char* data = nullptr;
    long bytes = 0;
    if (PEM_read_bio(bio.get(), &label, &header, &data, &bytes) != 1) {
      if (NothingMoreBegins()) return blocks;
      return absl::InvalidArgumentError(
          absl::StrCat("PEM block ", blocks.size() + 1, " is damaged or cut off"));
    }
    const Allocated<char> own_label(label), own_header(header);
    const Allocated<unsigned char> own_data(data);
    PemBlock block;
    block.label = label;
    block.encrypted = absl::StrContains(header, "ENCRYPTED") || block.label == PEM_STRING_PKCS8;
    block.der.assign(reinterpret_cast<const char*>(data), bytes);
    OPENSSL_cleanse(data, bytes);
    blocks.push_back(std::move(block));
  }
}

}  // namespace strata::keys
