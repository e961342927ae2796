"""Usual names of the columns of interaction tables; the first of each is suggested in errors."""

import re
from functools import lru_cache

# A name fits in any case, and with or without blanks, dashes and underscores: "User ID" is user_id.
USER_NAMES = (
    "user_id", "user", "uid", "customer_id", "customer", "visitor_id", "visitor", "client_id", "client", "account_id",
    "member_id", "reviewer_id", "profile_id", "person_id", "session_id", "session", "user_session",
)  # fmt: skip
ITEM_NAMES = (
    "item_id", "item", "iid", "parent_asin", "asin", "movie_id", "product_id", "product", "article_id", "book_id",
    "track_id", "song_id", "artist_id", "anime_id", "recipe_id", "game_id", "news_id", "business_id", "gmap_id",
    "video_id", "sku", "isbn",
)  # fmt: skip
RATING_NAMES = ("rating", "overall", "stars")
TIME_NAMES = (
    "timestamp", "time", "unix_review_time", "unix_timestamp", "unix_time", "ts", "date_time", "date", "created_at",
    "created", "event_time", "event_timestamp", "event_date", "purchase_date", "purchase_time", "order_date",
    "order_time", "transaction_date", "invoice_date", "review_date", "rating_date", "rated_at", "played_at",
    "listened_at", "visited", "last_watch_dt", "t_dat", "when", "t",
)  # fmt: skip
USUAL_NAMES = {"user": USER_NAMES, "item": ITEM_NAMES, "time": TIME_NAMES, "rating": RATING_NAMES}
# words in names that are less usual, from which --columns is guessed in errors
LIKE = {"user": re.compile("user|customer|client|visitor|member|account|person|reader|buyer|session"),
        "item": re.compile("item|product|article|book|movie|film|track|song|game|sku|recipe|video|id$")}  # fmt: skip


@lru_cache(1 << 10)
def plain(name: str) -> str:
    """A column's name to compare by: without case, blanks, dashes, underscores, and RecBole's type (user_id:token)."""
    return re.sub(r"[-_ ]", "", name.lower().split(":")[0])


PLAIN_NAMES = {what: tuple(map(plain, usual)) for what, usual in USUAL_NAMES.items()}
