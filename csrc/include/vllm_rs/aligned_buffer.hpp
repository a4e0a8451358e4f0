// Page-aligned memory from the kernel: zero until written, counted, optionally advised to use huge pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace vllm_rs {

enum class Pages : uint8_t { normal, huge };

class AlignedBuffer {
public:
  AlignedBuffer() = default;
  // Reserves address space; pages are backed when first touched. Throws std::bad_alloc.
  explicit AlignedBuffer(size_t num_bytes, Pages pages = Pages::normal);
  ~AlignedBuffer();
  AlignedBuffer(AlignedBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), num_bytes_(std::exchange(other.num_bytes_, 0)) {}
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(num_bytes_, other.num_bytes_);
    return *this;
  }

  std::byte* data() const { return data_; }
  size_t size() const { return num_bytes_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }
  // How many were ever made in this process: flat while steps are replayed.
  static int64_t count();
  // Bytes that the kernel has backed with memory so far.
  size_t resident_bytes() const;

private:
  std::byte* data_ = nullptr;
  size_t num_bytes_ = 0;
};

} // namespace vllm_rs
