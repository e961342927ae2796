"""The files that experiments read, in the folder that --data names: `user item` lines, oldest first."""

from .experiment import Dataset

ML_1M = Dataset("MovieLens 1M", file="ml-1m.txt.gz")
ML_1M_TIMES = Dataset("MovieLens 1M, with times", file="ml-1m-time.txt.gz")
GAMES = Dataset("Amazon Games, as SASRec's authors cut it", file="games-kang205.txt.gz")
BEAUTY = Dataset("Amazon Beauty, 5-core", file="beauty-5core.txt.gz")
LARGE_BEAUTY = Dataset("Amazon Beauty, as BERT4Rec's authors cut it", file="beauty-bert4rec.txt.gz")
ML_100K = Dataset("MovieLens 100K", file="ml-100k.inter.gz")
BEAUTY_TIMES = Dataset("Amazon Beauty, 5-core, with times", file="beauty-5core-time.txt.gz")
