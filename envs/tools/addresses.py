"""Which addresses are hosts of the open internet: neither private, nor special, nor a way to another address.

The blocks are those of IANA's IPv4 and IPv6 Special-Purpose Address Registries (RFC 6890, as of 2025), whether or not
they are globally reachable there, and those that were assigned once and are deprecated. ``ipaddress.is_global`` knows
other blocks in each version of Python.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

SPECIAL_V4: Final = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network (RFC 791)
            "10.0.0.0/8",  # private (RFC 1918)
            "100.64.0.0/10",  # shared, of carriers (RFC 6598)
            "127.0.0.0/8",  # loopback (RFC 1122)
            "169.254.0.0/16",  # link local; the metadata of clouds (RFC 3927)
            "172.16.0.0/12",  # private (RFC 1918)
            "192.0.0.0/24",  # protocol assignments: DS-Lite, PCP, TURN, NAT64 discovery (RFC 6890)
            "192.0.2.0/24",  # documentation (RFC 5737)
            "192.31.196.0/24",  # AS112 (RFC 7535)
            "192.52.193.0/24",  # automatic multicast tunnelling (RFC 7450)
            "192.88.99.0/24",  # 6to4 relays, deprecated (RFC 7526)
            "192.168.0.0/16",  # private (RFC 1918)
            "192.175.48.0/24",  # AS112, delegated directly (RFC 7534)
            "198.18.0.0/15",  # benchmarking (RFC 2544)
            "198.51.100.0/24",  # documentation (RFC 5737)
            "203.0.113.0/24",  # documentation (RFC 5737)
            "224.0.0.0/4",  # multicast (RFC 5771)
            "240.0.0.0/4",  # reserved, and limited broadcast (RFC 1112, RFC 8190)
        ),
    )
)
# Only 2000::/3 is global unicast. So what lies outside needs no line here: loopback, IPv4-mapped, -compatible and
# -translated addresses, NAT64 (64:ff9b::/96, 64:ff9b:1::/48), discard (100::/64), SRv6 (5f00::/16), unique local,
# link local, the deprecated site local (fec0::/10), and multicast.
UNICAST_V6: Final = IPv6Network("2000::/3")
SPECIAL_V6: Final = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments: Teredo (which carries IPv4), benchmarking, AMT, AS112, ORCHID, drones
            "2001:db8::/32",  # documentation (RFC 3849)
            "2002::/16",  # 6to4, which carries IPv4 (RFC 3056)
            "2620:4f:8000::/48",  # AS112, delegated directly (RFC 7534)
            "3fff::/20",  # documentation (RFC 9637)
            "3ffe::/16",  # the 6bone, returned (RFC 3701)
        ),
    )
)
ISATAP: Final = (0x00005EFE, 0x02005EFE)  # upper half of an interface's number that carries IPv4 (RFC 5214)


def is_public(number: str) -> bool:
    """Whether an address, written as a number, is one of the open internet, and carries no other inside.

    Raises:
        ValueError: it is no address.
    """
    address = ip_address(number)
    if isinstance(address, IPv4Address):
        return not any(address in block for block in SPECIAL_V4)
    return _is_public_v6(address)


def _is_public_v6(address: IPv6Address) -> bool:
    if address.scope_id is not None or address not in UNICAST_V6 or any(address in block for block in SPECIAL_V6):
        return False
    return (int(address) >> 32) & 0xFFFFFFFF not in ISATAP
