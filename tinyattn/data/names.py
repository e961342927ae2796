"""What people call the columns of their tables, in lower case; the first of each is what we would call it."""

USER_NAMES = ("user_id", "userid", "user", "reviewerid", "sessionid", "session_id")
ITEM_NAMES = ("item_id", "itemid", "item", "parent_asin", "asin", "movieid", "movie_id")
TIME_NAMES = ("timestamp", "time", "unixreviewtime")
