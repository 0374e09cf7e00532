"""Cox's partial likelihood of bags"""
