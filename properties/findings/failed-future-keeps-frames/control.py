import gc
import weakref
from concurrent.futures import Future


class Service:
    pass


def use():
    service, future = Service(), Future()
    future.set_exception(ValueError("planted"))
    try:
        future.result()
    except ValueError:
        return weakref.ref(service)


seen = use()
gc.collect()
print("OK" if seen() is None else "BUG", "nothing is left, with concurrent.futures.Future")
