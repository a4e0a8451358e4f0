#include "vllm_rs/aligned_buffer.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

namespace vllm_rs {
namespace {

std::atomic<int64_t> made{0};

} // namespace

int64_t AlignedBuffer::count() { return made.load(std::memory_order_relaxed); }

AlignedBuffer::AlignedBuffer(size_t num_bytes, Pages pages) : num_bytes_(num_bytes) {
  if (num_bytes == 0)
    return;
  void* memory =
      mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    num_bytes_ = 0;
    throw std::bad_alloc();
  }
  made.fetch_add(1, std::memory_order_relaxed);
  data_ = static_cast<std::byte*>(memory);
  if (pages == Pages::huge)
    madvise(memory, num_bytes, MADV_HUGEPAGE); // advice: a kernel without huge pages may ignore it
}

AlignedBuffer::~AlignedBuffer() {
  if (data_ != nullptr)
    munmap(data_, num_bytes_);
}

size_t AlignedBuffer::resident_bytes() const {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::array<unsigned char, 4096> resident{};
  size_t total = 0;
  for (size_t offset = 0; offset < num_bytes_; offset += page * resident.size()) {
    const size_t length = std::min(num_bytes_ - offset, page * resident.size());
    if (mincore(data_ + offset, length, resident.data()) != 0)
      return total;
    const size_t pages = (length + page - 1) / page;
    total += page * static_cast<size_t>(std::count_if(resident.begin(), resident.begin() + pages,
                                                      [](unsigned char flags) { return (flags & 1) != 0; }));
  }
  return total;
}

} // namespace vllm_rs
