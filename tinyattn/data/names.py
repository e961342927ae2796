"""Usual names of the columns of interaction tables, in lower case; the first of each is suggested in errors."""

USER_NAMES = ("user_id", "userid", "user", "reviewerid", "sessionid", "session_id")
ITEM_NAMES = ("item_id", "itemid", "item", "parent_asin", "asin", "movieid", "movie_id")
RATING_NAMES = ("rating", "overall", "stars")
TIME_NAMES = ("timestamp", "time", "unixreviewtime", "unix_timestamp", "time_stamp", "unix_time", "ts")
USUAL_NAMES = {"user": USER_NAMES, "item": ITEM_NAMES, "time": TIME_NAMES, "rating": RATING_NAMES}
