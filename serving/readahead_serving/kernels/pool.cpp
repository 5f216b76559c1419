#include "pool.hpp"

// Never destroyed: its threads live until the process ends.
Pool& pool() {
  static Pool* one = new Pool;
  return *one;
}
